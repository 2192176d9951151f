"""Correct tasks of a twenty-fifth examiner; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import change_of

TASKS: tuple[Change, ...] = (
    change_of(
        name="further measurements are made NaN in training batches",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "import numpy as np\n\nfrom .config",
                "import numpy as np\nimport tensorflow as tf\n\nfrom .config",
            ),
            Edit(
                "data.py",
                "MISSING = 0.15  # fraction of their values that is removed\n",
                "MISSING = 0.15  # fraction of their values that is removed\nHIDDEN = 0.1  # fraction of all values that training hides besides, others in each step\n",
            ),
            Edit(
                "data.py",
                "    return None\n",
                """
    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, labels, weights = batch
        numeric = inputs["numeric"]  # (batch, columns)
        hidden = tf.random.stateless_uniform(numeric.shape, seed) < HIDDEN
        numeric = tf.where(hidden, tf.constant(np.nan, numeric.dtype), numeric)
        return {**inputs, "numeric": numeric}, labels, weights

    return augment
""",
                "create_augment",
            ),
        ),
    ),
    change_of(
        name="gamma deviance with a log link that starts at the mean",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n\n\n",
                "\n",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def gamma_deviance(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1), more than 0, in units of the data -> float (batch,).

        For errors in proportion to what is predicted; 0 if the prediction is right.
        """
        ratio = labels / predictions  # (batch, 1)
        return 2.0 * tf.reduce_mean(ratio - 1.0 - tf.math.log(ratio), axis=1)

    return {"main": gamma_deviance}
''',
                "create_losses",
            ),
            Edit("model.py", '        "label_variance": labels.var(axis=0),\n', ""),
            Edit(
                "model.py",
                """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))
""",
                """    # The logarithm of a prediction over the mean label: 0 at first.
    last = layers.Dense(1, kernel_initializer="zeros", dtype=floatx)
    x = last(layers.Concatenate()([x, hidden]))  # (batch, 1)
    return keras.Model(inputs, ops.exp(x + float(np.log(adapted["label_mean"][0]))))
""",
            ),
        ),
    ),
    change_of(
        name="a known share of wrong training labels and the forward correction of the loss",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels\n",
                "# Training labels are given by careless people: so many are another class, each as likely.\nCLASSES, NOISE = 10, 0.3\n\nArrays = tuple[np.ndarray, np.ndarray]  # images and labels\n",
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
    random = np.random.default_rng(0)  # the same people in every run
    wrong = (labels + random.integers(1, CLASSES, len(labels))) % CLASSES
    datasets["train"] = images, np.where(random.random(len(labels)) < NOISE, wrong, labels)
    return datasets
""",
                "create_datasets",
            ),
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\nfrom .data import CLASSES, NOISE\n",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: (labels, predictions) -> one number per example.

    "main" is for right labels, those of validation and test; "noisy" for those of training.
    """

    def noisy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Minus the log probability of the label that a careless person gives, (batch,).

        The forward correction (Patrini et al., 2017): it is lowest where the softmax of the logits
        is the probability of the right labels.
        """
        right = tf.gather(tf.nn.softmax(logits), labels, axis=1, batch_dims=1)  # (batch,)
        return -tf.math.log((1 - NOISE) * right + NOISE / (CLASSES - 1) * (1 - right))

    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"main": entropy, "noisy": noisy}
''',
                "create_losses",
            ),
            Edit(
                "steps.py",
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n',
                '    per_example = run.losses["noisy"](labels, predictions)  # (batch,)\n',
                "train_step",
            ),
        ),
    ),
    change_of(
        name="rare classes whose rows come again until all classes are as frequent",
        project="image_classification",
        edits=(
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
    datasets["train"] = _oversampled(*_long_tailed(*datasets["train"]))
    return datasets
""",
                "create_datasets",
            ),
            Edit(
                "data.py",
                "def _load_digits() -> dict[str, Arrays]:\n",
                '''def _long_tailed(images: np.ndarray, labels: np.ndarray) -> Arrays:
    """Of each class a fifth fewer rows than of the one before it: the question of this study."""
    rows = []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        rows.append(own[: round(len(own) * 0.8 ** int(label))])
    chosen = np.concatenate(rows)
    return images[chosen], labels[chosen]


def _oversampled(images: np.ndarray, labels: np.ndarray) -> Arrays:
    """Rows of each class again and again until there are as many as of the largest class."""
    most = np.bincount(labels).max()
    rows = [np.resize(np.flatnonzero(labels == label), most) for label in np.unique(labels)]
    chosen = np.concatenate(rows)
    return images[chosen], labels[chosen]


def _load_digits() -> dict[str, Arrays]:
''',
            ),
        ),
    ),
    change_of(
        name="Barlow Twins over the gathered batch",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "from .losses import compute_loss\n\nTEMPERATURE = 0.1\n",
                "\nREDUNDANCY = 0.02  # weight of a squared correlation between different features\n",
            ),
            Edit(
                "steps.py",
                "",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _barlow_twins(run, batch, replica, training=True)
''',
                "train_step",
            ),
            Edit(
                "steps.py",
                "",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _barlow_twins(run, batch, replica, training=False)


def _barlow_twins(
    run: Run, batch: Batch, replica: Replica, *, training: bool
) -> dict[str, tf.Tensor]:
    """Correlations of features over the whole batch (Zbontar et al., 2021): wanted is identity."""
    left, right, weights = batch
    rows = left.shape[0]
    share = replica.all_gather(weights)[:, tf.newaxis]  # (rows of all replicas, 1)
    share = share / tf.reduce_sum(share)  # adds up to 1; 0 for padding

    def standardized(images: tf.Tensor) -> tf.Tensor:
        features = replica.all_gather(run.model(images, training=training))
        centered = features - tf.reduce_sum(share * features, axis=0)
        variance = tf.reduce_sum(share * tf.square(centered), axis=0)
        return centered / tf.sqrt(variance + 1e-4)  # (rows of all replicas, features)

    left, right = standardized(left), standardized(right)
    correlation = tf.matmul(left, share * right, transpose_a=True)  # (features, features)
    same = tf.linalg.diag_part(correlation)  # (features,)
    others = tf.reduce_sum(tf.square(correlation)) - tf.reduce_sum(tf.square(same))
    loss = tf.reduce_sum(tf.square(1.0 - same)) + REDUNDANCY * others
    # How often an image is more like its own noisy one than like those of others.
    own = replica.index * rows + tf.range(rows)
    mine = tf.math.l2_normalize(tf.gather(left, own), axis=1)  # (rows, features)
    similarity = tf.matmul(mine, tf.math.l2_normalize(right, axis=1), transpose_b=True)
    run.metrics["accuracy"].update_state(own, tf.where(share[:, 0] > 0, similarity, -1e9), weights)
    # Every replica has computed the whole loss; their sum must be that.
    loss = loss / replica.num_replicas
    return {"main": loss + tf.nn.scale_regularization_loss(replica.regularization(run.model))}
''',
                "validation_step",
            ),
        ),
    ),
    change_of(
        name="sigmoid loss of all pairs with a head that starts at 10 and -10",
        project="contrastive",
        edits=(
            Edit(
                "model.py",
                "    return keras.Model(images, features)\n",
                """    # The logit that two images are one, from the cosine between their features: that they are not
    # is likely at first, as nearly all pairs are of two images (Zhai et al., 2023).
    cosine = keras.Input((None, 1), name="cosine")
    scale, shift = keras.initializers.Constant(10.0), keras.initializers.Constant(-10.0)
    logit = layers.Dense(
        1,
        kernel_initializer=scale,
        bias_initializer=shift,
        dtype=keras.config.floatx(),
        name="logit",
    )
    return {
        "encoder": keras.Model(images, features, name="encoder"),
        "pair": keras.Model(cosine, logit(cosine), name="pair"),
    }
""",
            ),
            Edit(
                "model.py",
                'def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:\n    """Images float (batch, h, w, 1) -> features float32 (batch, FEATURES).\n',
                'def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:\n    """Images float (batch, h, w, 1) -> features float32 (batch, FEATURES); cosines -> logits.\n',
            ),
            Edit("steps.py", "TEMPERATURE = 0.1\n", ""),
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
    """For each image the sum over all noisy images of the entropy of: is it the same one?"""
    left, right, weights = batch
    encoder, pair = run.models["encoder"], run.models["pair"]
    left = tf.math.l2_normalize(encoder(left, training=training), axis=1)  # (rows, features)
    right = tf.math.l2_normalize(encoder(right, training=training), axis=1)  # (rows, features)
    candidates = replica.all_gather(right)  # (rows of all replicas, features)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    cosines = tf.matmul(left, candidates, transpose_b=True)  # (rows, rows of all replicas)
    logits = pair(cosines[..., tf.newaxis], training=training)[..., 0]
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    same = tf.one_hot(own, tf.shape(candidates)[0], dtype=logits.dtype)
    entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=same, logits=logits)
    per_example = tf.reduce_sum(tf.where(there, entropy, 0.0), axis=1)  # (rows,)
    run.metrics["accuracy"].update_state(own, tf.where(there, logits, -1e9), weights)
    loss = compute_loss(per_example, weights, encoder, replica)
    return {"main": loss + tf.nn.scale_regularization_loss(replica.regularization(pair))}
''',
                "validation_step",
            ),
        ),
    ),
    change_of(
        name="blended images keep the label of one of them since the teacher judges the blend",
        project="distillation",
        edits=(
            Edit(
                "data.py",
                "        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)\n",
                """        seed, blend = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
""",
            ),
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                """        images = keras.ops.image.affine_transform(images, transforms)
        # With a lesser part of another image of the batch. What to learn of the blend the teacher
        # says, who gets it too; the label, of the greater part, serves the accuracy alone.
        size = (images.shape[0], 1, 1, 1)
        share = tf.random.stateless_uniform(size, blend, 0.5, 1.0, images.dtype)
        return share * images + (1 - share) * tf.roll(images, 1, axis=0), labels, weights
""",
            ),
            Edit(
                "steps.py",
                "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
                "TEMPERATURE, HARD = 2.0, 0.0  # HARD: how much of the loss comes from the labels; none\n",
            ),
        ),
    ),
    change_of(
        name="a student of black and white images that learns the teacher's logits by squared error",
        project="distillation",
        edits=(
            Edit(
                "model.py",
                '    x = layers.Dense(32, activation="relu")(layers.Flatten()(images))\n',
                """    # It will run on a device that sees one bit per pixel; the teacher sees the gray image.
    ink = keras.ops.cast(keras.ops.greater(images, 0.5), keras.config.floatx())
    x = layers.Dense(32, activation="relu")(layers.Flatten()(ink))
""",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name; the teacher's logits and the student's give one number per example."""

    def squares(taught: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Mean squared difference but for a constant, which means nothing: (batch, classes)."""
        difference = logits - taught
        difference -= tf.reduce_mean(difference, axis=1, keepdims=True)
        return tf.reduce_mean(tf.square(difference), axis=1)

    return {"squares": squares}
''',
                "create_losses",
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
                '    per_example = run.losses["squares"](taught, logits)  # (batch,)\n',
                "*",
            ),
            Edit(
                "steps.py",
                "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
                "",
                "*",
            ),
        ),
    ),
    change_of(
        name="weights are pulled to where the fine-tuning started, not to zero",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                "from ..engine.auxiliary import load_in_precision\n",
                "from ..engine.auxiliary import load_frozen, load_in_precision\n",
            ),
            Edit(
                "model.py",
                'def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:\n    """Images float (batch, h, w, 1) -> logits float32 (batch, classes)."""\n',
                'def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:\n    """Images float (batch, h, w, 1) -> logits float32 (batch, classes); the backbone as it was."""\n',
            ),
            Edit(
                "model.py",
                "    return keras.Model(images, logits(features))\n",
                '    return {"tuned": keras.Model(images, logits(features)), "start": load_frozen(BACKBONE)}\n',
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number that the loss of a batch is divided by; default: the number of\n",
                '''def distance_from(start: keras.Model, tuned: keras.Model) -> tf.Tensor:
    """Half the squared distance of the backbone's kernels from those of `start`, float scalar.

    L2-SP (Li et al., 2018): what was learned before is a better prior than zero.
    """
    halves = [
        tf.nn.l2_loss(tf.convert_to_tensor(now.kernel) - tf.convert_to_tensor(before.kernel))
        for now, before in zip(tuned.get_layer("backbone").layers, start.layers, strict=True)
        if isinstance(now, keras.layers.Conv2D)
    ]
    return tf.add_n(halves)


# TODO(10): the number that the loss of a batch is divided by; default: the number of
''',
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .losses import compute_loss, distance_from\n\nPULL = 0.02  # weight of the distance from the start in the loss\n",
            ),
            Edit(
                "steps.py",
                '    return {"main": compute_loss(per_example, weights, run.model, replica)}\n',
                """    loss = compute_loss(per_example, weights, run.model, replica)
    distance = distance_from(run.models["start"], run.model) / replica.num_microbatches
    return {"main": loss + tf.nn.scale_regularization_loss(PULL * distance)}
""",
                "*",
            ),
        ),
    ),
    change_of(
        name="of the backbone only the normalization trains",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                """        # Normalization stays as it was for good; the others are trainable until step 0.
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
""",
                """        # Its statistics, scales and offsets follow the new data; filters stay as they are for good.
        layer.trainable = isinstance(layer, keras.layers.BatchNormalization)
""",
            ),
            Edit(
                "callbacks.py",
                "import keras\n\nfrom ..engine.callbacks import Callback, Event, at_step\n",
                "from ..engine.callbacks import Callback\n",
            ),
            Edit(
                "callbacks.py",
                "",
                '''def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None: what trains doesn't change during the run."""
    return []
''',
                "create_callbacks",
            ),
            Edit(
                "config.py",
                "    frozen_steps: int = 7  # steps in which the last layer trains alone\n",
                "",
            ),
            Edit(
                "optimizer.py",
                "keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)",
                "keras.optimizers.Adam(1e-3), keras.optimizers.Adam(schedule)",
            ),
        ),
    ),
    change_of(
        name="each hour is forecast by the same layers from the forecasts before it",
        project="forecasting",
        edits=(
            Edit(
                "model.py",
                "from .data import COLUMNS, FUTURE, PAST\n",
                "from .data import COLUMNS, FUTURE, PAST, TARGET\n",
            ),
            Edit(
                "model.py",
                "",
                '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Means and variances of what is there, of each column."""
    inputs, _ = datasets["train"]
    return {"mean": np.nanmean(inputs, axis=(0, 1)), "variance": np.nanvar(inputs, axis=(0, 1))}
''',
                "adapt",
            ),
            Edit(
                "model.py",
                """    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
                """    flatten, hidden = layers.Flatten(), layers.Dense(task.units, activation="relu")
    last = layers.Dense(1, dtype=floatx)
    forecasts = []
    for _ in range(FUTURE):
        hour = last(hidden(flatten(x)))  # (batch, 1), the temperature, scaled
        forecasts.append(hour)
        # The next window: without its first hour, and with the forecast, whose wind is missing.
        zero, one = ops.zeros_like(hour), ops.ones_like(hour)
        row = layers.Reshape((1, 2 * len(COLUMNS)))(layers.Concatenate()([hour, zero, zero, one]))
        x = layers.Concatenate(axis=1)([x[:, 1:], row])  # (batch, PAST, 2 columns)
    forecast = layers.Concatenate(dtype=floatx)(forecasts)  # (batch, FUTURE)
    deviation = float(np.sqrt(variance[TARGET]))
    return keras.Model(past, forecast * deviation + float(mean[TARGET]))
""",
            ),
        ),
    ),
    change_of(
        name="the hours before validation and test begin are their inputs too",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                """    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}
""",
                """    ends = [int(0.7 * len(rows)), int(0.85 * len(rows)), len(rows)]
    # The first forecast of a split is of its first hour, and looks back on the split before.
    starts = [0, ends[0] - PAST, ends[1] - PAST]
    names = ("train", "validation", "test")  # in the order of time
    return {
        name: _windows(rows[start:end])
        for name, start, end in zip(names, starts, ends, strict=True)
    }
""",
            ),
        ),
    ),
    change_of(
        name="relativistic pairs with squared slopes on real and generated images",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example.

    Only the difference between a real and a generated image counts (Huang et al., 2024).
    """

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logit of each real image is higher than that of a generated one."""
        return tf.nn.softplus(on_generated - on_real)[:, 0]  # (batch,)

    def generator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if it is the other way around."""
        return tf.nn.softplus(on_real - on_generated)[:, 0]  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}


def logits_and_squared_slopes(
    discriminator: keras.Model, images: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Logits (batch, 1), and the squared norm of each one's gradient by its image, (batch,)."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        logits = discriminator(images, training=True)
    # Of the sum of all logits: an image has part in its own one only.
    slopes = tape.gradient(logits, images)  # (batch, h, w, channels)
    return logits, tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3])
''',
                "create_losses",
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .losses import compute_loss, logits_and_squared_slopes\n\nSLOPE = 0.25  # weight of squared slopes in the discriminator's training loss\n",
            ),
            Edit(
                "steps.py",
                """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
                """    fixed = tf.stop_gradient(generated)
    on_real, real_slopes = logits_and_squared_slopes(discriminator, images)
    on_generated, generated_slopes = logits_and_squared_slopes(discriminator, fixed)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    per_example += SLOPE * (real_slopes + generated_slopes)
""",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                """    _, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["generator"](on_generated)  # (batch,)
""",
                """    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
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
    ),
    change_of(
        name="two discriminator updates in a step and a schedule twice as long for it",
        project="gan",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    # Little momentum, because each model's task changes with the other (Radford et al., 2015).
    return {
        "generator": keras.optimizers.Adam(schedule, beta_1=0.5),
        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),
    }
""",
                """
    def schedule(updates: int) -> keras.optimizers.schedules.LearningRateSchedule:
        return keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=updates)

    # Little momentum, because each model's task changes with the other (Radford et al., 2015).
    return {
        "generator": keras.optimizers.Adam(schedule(steps), beta_1=0.5),
        # It makes two updates in each step.
        "discriminator": keras.optimizers.Adam(schedule(2 * steps), beta_1=0.5),
    }
""",
            ),
            Edit(
                "steps.py",
                """    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
""",
                """    images, latents, weights = batch
    # Others in each of its two updates, and than the generator's.
    latents = tf.random.stateless_normal(latents.shape, replica.seed, dtype=latents.dtype)
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
""",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                "TRAIN_STEPS = (discriminator_step, generator_step)  # called in this order on the same batch\n",
                "# Called in this order in every step: the discriminator trains twice on the same real images.\nTRAIN_STEPS = (discriminator_step, discriminator_step, generator_step)\n",
            ),
        ),
    ),
    change_of(
        name="attention sees the whole prompt in both directions",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "from .data import ANSWER_LENGTH, TOKENS\n",
                "from .data import ANSWER_LENGTH, PROMPT_END, TOKENS\n",
            ),
            Edit(
                "model.py",
                "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)\n",
                """    # A prefix language model: any token may look at all of the prompt, which is never predicted,
    # and at what comes before it. No ">" is before a token of the prompt.
    ops = keras.ops
    ends = ops.cast(ops.equal(tokens, PROMPT_END), "int32")
    in_prompt = ops.equal(ops.cumsum(ends, axis=1), ends)  # (batch, T), the ">" included
    causal = ops.greater_equal(ops.expand_dims(positions, 2), ops.expand_dims(positions, 1))
    visible = ops.logical_or(causal, ops.expand_dims(in_prompt, 1))  # (batch, T, T)
    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
""",
            ),
            Edit(
                "model.py",
                "        # Padding needs no mask: it comes last, and no token attends to a later one.\n",
                "        # Padding needs no mask: it comes last, after the prompt, where none attends to a later one.\n",
            ),
            Edit(
                "model.py",
                "        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))\n",
                "        x = x + layers.Dropout(task.dropout)(attention(y, y, attention_mask=visible))\n",
            ),
            Edit(
                "model.py",
                """        query, value = keras.Model(model.input, layer.input)(tokens)
        _, weights = layer(query, value, use_causal_mask=True, return_attention_scores=True)
""",
                """        query, value, visible = keras.Model(model.input, layer.input)(tokens)
        _, weights = layer(query, value, attention_mask=visible, return_attention_scores=True)
""",
                "attention",
            ),
        ),
    ),
    change_of(
        name="random case of letters in inputs but not in targets",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                'ANSWER_LENGTH = len("1979-05-03\\n")\n',
                'ANSWER_LENGTH = len("1979-05-03\\n")\nFLIPPED = 0.1  # fraction of letters whose case training changes\nCASE = 32  # the bit of an ASCII letter that makes it a small one\n',
            ),
            Edit(
                "data.py",
                """        rows, forms, _ = batch[0].shape
        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)
        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)
""",
                """        rows, forms, _ = batch[0].shape
        seed, flip = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)
        tokens, targets, weights = (
            tf.gather(part, form, axis=1, batch_dims=1) for part in batch
        )  # each (batch, T)
        # "3rD of MAy, 1979": targets may stay, since answers have no letters and prompts no weight.
        small = tf.bitwise.bitwise_or(tokens, CASE)
        is_letter = (small >= ord("a")) & (small <= ord("z"))
        flipped = is_letter & (tf.random.stateless_uniform(tokens.shape, flip) < FLIPPED)
        tokens = tf.where(flipped, tf.bitwise.bitwise_xor(tokens, CASE), tokens)
        return tokens, targets, weights
""",
                "create_augment",
            ),
        ),
    ),
    change_of(
        name="training learns from the hardest quarter of each image's pixels",
        project="segmentation",
        edits=(
            Edit(
                "losses.py",
                "# TODO(10): the number that the loss of a batch is divided by; default: the number of\n",
                '''def average_over_hardest(
    per_pixel: tf.Tensor, labels: tf.Tensor, foreground_weight: float
) -> tf.Tensor:
    """As `average_over_pixels`, of the quarter of an example's pixels with the largest loss.

    Most background is easy, and would count for most of the loss (Shrivastava et al., 2016).
    """
    weighted = tf.where(labels == 0, per_pixel, foreground_weight * per_pixel)  # 0 if ignored
    pixels = tf.reshape(weighted, (labels.shape[0], labels.shape[1] * labels.shape[2]))
    hardest, _ = tf.math.top_k(pixels, k=pixels.shape[1] // 4)  # (batch, a quarter)
    return tf.reduce_mean(hardest, axis=1)


# TODO(10): the number that the loss of a batch is divided by; default: the number of
''',
            ),
            Edit(
                "steps.py",
                "from .losses import average_over_pixels, compute_loss\n",
                "from .losses import average_over_hardest, average_over_pixels, compute_loss\n",
            ),
            Edit(
                "steps.py",
                "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
                "    per_example = average_over_hardest(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
                "train_step",
            ),
        ),
    ),
    change_of(
        name="squares are erased from images and their labels become ignored",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                "TRIES = 6  # digits that are tried on each canvas\n",
                "TRIES = 6  # digits that are tried on each canvas\nERASED = 7  # pixels along a side of the square that training erases\n",
            ),
            Edit(
                "data.py",
                """    if not task.warp:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
""",
                """
    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        seed, erase = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
""",
                "create_augment",
            ),
            Edit(
                "data.py",
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
                """        labels = tf.cast(labels[..., 0], tf.int32)  # (batch, h, w)
        # A square without ink; what was there can't be known, so nothing is to be learned of it.
        first = tf.random.stateless_uniform((rows, 2, 1), erase, 0, CANVAS - ERASED + 1, tf.int32)
        along = tf.range(CANVAS)
        inside = (along >= first) & (along < first + ERASED)  # (batch, 2, CANVAS): by row, column
        erased = inside[:, 0, :, tf.newaxis] & inside[:, 1, tf.newaxis, :]  # (batch, h, w)
        images = tf.where(erased[..., tf.newaxis], tf.zeros_like(images), images)
        return images, tf.where(erased, tf.fill(tf.shape(labels), IGNORED), labels), weights
""",
                "create_augment",
            ),
        ),
    ),
    change_of(
        name="a head without weights: the parity follows from the digit's logits",
        project="two_heads",
        edits=(
            Edit(
                "model.py",
                '    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)\n',
                """    # Whether a digit is even follows from the digit, so its logits, 0: odd and 1: even, are those
    # of either of five classes. A label of parity alone teaches the digits too.
    odd, even = (keras.ops.logsumexp(logits[:, first::2], axis=1) for first in (1, 0))
    even = keras.ops.stack([odd, even], axis=1)  # (batch, 2)
""",
            ),
        ),
    ),
    change_of(
        name="warm restarts for the trunk beside constant Adam for the heads",
        project="two_heads",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
                """    # Three cosines, each twice as long as the one before (Loshchilov & Hutter, 2017): 1 + 2 + 4
    # sevenths of the run. Rounded up, or the last steps would begin a fourth one.
    schedule = keras.optimizers.schedules.CosineDecayRestarts(
        10 * task.learning_rate, first_decay_steps=-(-steps // 7), t_mul=2.0, m_mul=0.8
    )
    trunk = keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
    heads = keras.optimizers.Adam(task.learning_rate / 4)
    return keras.optimizers.MultiOptimizer(
        lambda v: heads if v.path.startswith(("logits/", "even/")) else trunk
    )
""",
            ),
        ),
    ),
    change_of(
        name="importance-weighted bound with eight codes for each image",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "import tensorflow as tf\n\nfrom ..engine.types",
                "import math\n\nimport tensorflow as tf\n\nfrom ..engine.types",
            ),
            Edit(
                "steps.py",
                "WARM_UP = 200  # steps until the KL divergence counts in full\n",
                "SAMPLES = 8  # codes of an image\n",
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
    """Minus a bound on the log likelihood, but for a constant (Burda et al., 2016)."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=training), 2, axis=1)  # (batch, CODE)
    rows, size = mean.shape
    if training:
        noise = tf.random.stateless_normal((rows, SAMPLES, size), replica.seed, dtype=mean.dtype)
    else:  # the same for every image, so that results depend on the weights only
        noise = tf.random.stateless_normal((1, SAMPLES, size), (0, 0), dtype=mean.dtype)
    code = mean[:, tf.newaxis] + tf.exp(0.5 * log_variance)[:, tf.newaxis] * noise
    decoded = decoder(tf.reshape(code, (rows * SAMPLES, size)), training=training)
    error = run.losses["main"](tf.repeat(images, SAMPLES, axis=0), decoded)
    error = tf.reshape(error, (rows, SAMPLES))  # minus the log likelihood of the image
    # How much likelier a code is a priori than where it was drawn from, as a logarithm.
    drawn = tf.square(noise) + log_variance[:, tf.newaxis]
    ratio = 0.5 * tf.reduce_sum(drawn - tf.square(code), axis=2)  # (batch, SAMPLES)
    bound = tf.reduce_logsumexp(ratio - error, axis=1) - math.log(SAMPLES)  # (batch,)
    loss = compute_loss(-bound, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    terms = {"error": tf.reduce_mean(error, axis=1), "kl": kl_divergence(mean, log_variance)}
    return {"main": loss, **means(terms, weights, replica)}
''',
                "validation_step",
            ),
        ),
    ),
    change_of(
        name="the KL divergence is held at a capacity that grows",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "WARM_UP = 200  # steps until the KL divergence counts in full\n",
                "WARM_UP = 200  # steps until the code may hold CAPACITY\nCAPACITY = 8.0  # nats of an image in its code, in the end\nPRESSURE = 4.0  # weight of the distance from it\n",
            ),
            Edit(
                "steps.py",
                "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)\n",
                "    # Also too little is held against it (Burgess et al., 2018).\n    objective = error + PRESSURE * tf.abs(kl - warm_up * CAPACITY)  # (batch,)\n    loss = compute_loss(objective, weights, encoder, replica)\n",
            ),
            Edit(
                "steps.py",
                "    loss = compute_loss(error + kl, weights, encoder, replica)\n",
                "    objective = error + PRESSURE * tf.abs(kl - CAPACITY)  # that of the end of training, always\n    loss = compute_loss(objective, weights, encoder, replica)\n",
            ),
        ),
    ),
)

FAULTS: tuple[Fault, ...] = ()
