"""Faults that were written without a look at `check`, to judge it: its author tunes it to none."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Edit, Fault, after, before

# Texts of the starters that several faults replace.
LOSS = "compute_loss(per_example, weights, run.model, replica)"
TOKEN_LOSS = "compute_loss(per_token, weights, run.model, replica)"

LOSSES = (
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a Dice term of each replica's rows, added undivided",
        starter="segmentation",
        file="steps.py",
        cause="dice_loss is one number for each replica, and the replicas' losses are added: with "
        "N replicas it counts N times, each time of other rows, and padding counts in it",
        edits=(
            before(
                "losses.py",
                "# TODO(10)",
                '''def dice_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the Dice coefficient of the pixels of digits, a float scalar."""
    known = tf.cast(labels != IGNORED, logits.dtype)
    digit = tf.cast(labels != 0, logits.dtype) * known
    predicted = (1 - tf.nn.softmax(logits)[..., 0]) * known
    common = tf.reduce_sum(digit * predicted)
    return 1 - (2 * common + 1) / (tf.reduce_sum(digit) + tf.reduce_sum(predicted) + 1)


''',
            ),
            Edit("steps.py", at.LOSSES_IMPORT, at.LOSSES_IMPORT + ", dice_loss"),
            Edit("steps.py", LOSS, LOSS + " + dice_loss(labels, logits)", "*"),
        ),
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a z-loss that is the mean over this replica's tokens",
        starter="language_model",
        file="steps.py",
        cause="the penalty of large logits is a mean over one replica's tokens, added behind "
        "compute_loss: the replicas' means are added, and prompts and padding count in it",
        edits=(
            Edit(
                "steps.py",
                f'    return {{"main": {TOKEN_LOSS}}}',
                "    z_loss = tf.reduce_mean(tf.square(tf.reduce_logsumexp(logits, axis=-1)))\n"
                f'    return {{"main": {TOKEN_LOSS} + 1e-3 * z_loss}}',
                "train_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a cross-entropy written by hand, with a mean over the classes",
        file="losses.py",
        cause="reduce_mean over the classes where reduce_sum belongs: the loss is a tenth of the "
        "cross-entropy, beside a penalty that keeps its size",
        edits=(
            Edit(
                "losses.py",
                at.CROSS_ENTROPY,
                """\

    def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        right = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
        return -tf.reduce_mean(right * tf.nn.log_softmax(logits), axis=-1)  # (batch,)

    return {"main": cross_entropy}
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="balancing weights written into an array of integers",
        starter="tabular_regression",
        file="data.py",
        cause="np.ones_like(categories) is an array of integers, so weights below 1 become 0: the "
        "more frequent sex doesn't train at all",
        edits=(
            Edit(
                "data.py",
                """\
    _, index, counts = np.unique(categories, return_inverse=True, return_counts=True)
    # Their mean is 1, so the loss can be divided by the number of examples.
    return (len(categories) / (len(counts) * counts[index])).astype(np.float32)
""",
                """\
    values, counts = np.unique(categories, return_counts=True)
    weights = np.ones_like(categories)
    # Their mean is 1, so the loss can be divided by the number of examples.
    for value, number in zip(values, counts, strict=True):
        weights[categories == value] = len(categories) / (len(counts) * number)
    return weights.astype(np.float32)
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="tile instead of repeat: pixels get the weights of other images",
        starter="segmentation",
        file="metrics.py",
        cause="tile puts the weights of the whole batch one behind the other, so after the reshape "
        "an image's pixels have the weights of all images, and padding counts in part",
        edits=(
            Edit(
                "metrics.py",
                "    return tf.broadcast_to(weights[:, tf.newaxis, tf.newaxis], tf.shape(labels))\n",
                """\
    _, height, width = labels.shape
    return tf.reshape(tf.tile(weights, [height * width]), tf.shape(labels))
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="the total variation of an image, a sum beside a mean over pixels",
        starter="segmentation",
        file="steps.py",
        cause="tf.image.total_variation is the sum over an image's pixels and classes, while the "
        "cross-entropy is a mean over pixels: the penalty drowns it, and flat predictions win",
        edits=(
            after(
                "steps.py",
                at.OF_PIXELS,
                "    per_example += 0.1 * tf.image.total_variation(tf.nn.softmax(logits))\n",
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="a callback halves the L2 factor, a Python number that the graph has traced",
        file="callbacks.py",
        cause="the factor of a keras regularizer is a Python number, a constant in the traced "
        "step: the callback changes nothing, and a resumed run traces another factor",
        edits=(
            Edit("callbacks.py", at.CALLBACK_IMPORT, at.IMPORT_FOR_EPOCHS),
            Edit(
                "callbacks.py",
                at.NO_CALLBACKS,
                '''\
    def relax(event: Event) -> None:
        """Halve the penalty after every epoch."""
        for layer in event.run.model.layers:
            if getattr(layer, "kernel_regularizer", None):
                layer.kernel_regularizer.l2 = task.l2 * 0.5**event.epoch

    return [every_epochs(1, relax)]
''',
            ),
        ),
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="count counts labels that aren't zero, as if they were weights",
        file="losses.py",
        cause="count looks at batch[1], the labels, and not at the weights: zeros, which are the "
        "digit 0, don't count, and padding does",
        edits=(
            Edit(
                "losses.py",
                at.COUNT,
                """\
    labels = batch[1]  # (batch,)
    return tf.math.count_nonzero(labels, dtype=tf.int32)
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="count counts complete rows, and the loss is one of all rows",
        starter="tabular_regression",
        file="losses.py",
        cause="count leaves out rows with missing values, but their errors are in the sum: the "
        "loss is divided by less than half of the rows in it, by another part in every batch",
        edits=(
            Edit(
                "losses.py",
                at.COUNT,
                """\
    inputs, _, weights = batch
    complete = ~tf.reduce_any(tf.math.is_nan(inputs["numeric"]), axis=1)  # (batch,)
    return tf.math.count_nonzero(complete & (weights != 0), dtype=tf.int32)
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="a contrast between the images of a micro-batch, undeclared",
        file="steps.py",
        cause="the contrastive term compares an image with those of its replica's micro-batch "
        "only (padding too): gather the others with replica.all_gather, and set EXAMPLES_INTERACT",
        edits=(
            after(
                "steps.py",
                at.PER_EXAMPLE,
                """    # Images of a class shall be alike (Khosla et al., 2020).
    directions = tf.math.l2_normalize(predictions, axis=1)
    similarity = tf.matmul(directions, directions, transpose_b=True) / 0.5  # (batch, batch)
    alike = tf.cast(labels[:, tf.newaxis] == labels, similarity.dtype)
    contrast = tf.reduce_sum(alike * tf.nn.log_softmax(similarity), axis=1)
    per_example -= 0.2 * contrast / tf.reduce_sum(alike, axis=1)
""",
                "train_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="errors are divided by the deviation of the micro-batch's labels",
        starter="tabular_regression",
        file="losses.py",
        cause="labels are standardized by the deviation of the rows at hand: it differs between "
        "micro-batches, replicas and batches, and counts padding; use that of the training data",
        edits=(
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                """\
        deviation = tf.math.reduce_std(labels)
        return squared_error(labels / deviation, predictions / deviation)
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="instance noise seeded by the step: the same on all replicas and micro-batches",
        starter="gan",
        file="steps.py",
        cause="the noise has a seed of run.seed and replica.step, so every replica and micro-batch "
        "draws the same for its rows; replica.seed differs",
        edits=(
            Edit(
                "steps.py",
                """\
    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"]""",
                """\
    # Noise keeps the discriminator from being sure.
    seed = tf.stack([tf.constant(run.seed, tf.int64), replica.step])
    noise = 0.2 * tf.random.stateless_normal(images.shape, seed, dtype=images.dtype)
    on_real = discriminator(images + noise, training=True)  # (batch, 1)
    noise = 0.2 * tf.random.stateless_normal(images.shape, seed + 1, dtype=images.dtype)
    on_generated = discriminator(generated + noise, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"]""",
                "discriminator_step",
            ),
        ),
    ),
)

DATA = (
    Fault(
        kind=kinds.LABELS,
        name="the digit 0 has the label of the background",
        starter="segmentation",
        file="data.py",
        cause="the background is class 0, and the digits aren't moved up by one: zeros are "
        "labeled as background in every split, and class 10 never occurs",
        edits=(
            Edit(
                "data.py",
                "label[place][ink >= DARK] = classes[index] + 1",
                "label[place][ink >= DARK] = classes[index]",
            ),
        ),
    ),
    Fault(
        kind=kinds.LABELS,
        name="labels up to 346 are stored in uint8",
        starter="tabular_regression",
        file="data.py",
        cause="uint8 ends at 255: labels above wrap around, 300 becomes 44, for one row in seven",
        edits=(
            Edit("data.py", 'file["target"]\n', 'file["target"].astype(int).astype("uint8")\n'),
            Edit(
                "data.py",
                '"sex": sex}, target[rows, np.newaxis]',
                '"sex": sex}, target[rows, np.newaxis].astype("float32")',
            ),
        ),
    ),
    Fault(
        kind=kinds.LABELS,
        name="moved copies of the images at the end, labels repeated in place",
        file="data.py",
        cause="images are (all, all again), but np.repeat makes labels (first, first, second, "
        "second, ...): np.tile or np.concatenate would fit",
        edits=(
            Edit(
                "data.py",
                at.LOADED + at.ALL_ARRAYS,
                (at.LOADED + at.ALL_ARRAYS).replace(
                    "    return {",
                    """\
    images, labels = splits["train"]
    moved = np.roll(images, 1, axis=2)  # each digit once more, a pixel to the right
    splits["train"] = np.concatenate([images, moved]), np.repeat(labels, 2)
    return {""",
                ),
            ),
        ),
    ),
    Fault(
        kind=kinds.INPUTS,
        name="missing values are -999",
        starter="tabular_regression",
        file="data.py",
        cause="missing values are the number -999 and not NaN: it goes into means and variances, "
        "and the model takes it for a measurement",
        edits=(
            Edit(
                "data.py",
                "data[rows, columns.index(column)] = np.nan",
                "data[rows, columns.index(column)] = -999",
            ),
        ),
    ),
    Fault(
        kind=kinds.INPUTS,
        name="missing values are NaN in training and zeros in evaluation",
        starter="tabular_regression",
        file="data.py",
        cause="nan_to_num turns missing values of the validation and test data into measurements "
        "of 0, far from every real one; the model knows a missing value by its NaN",
        edits=(
            before(
                "data.py",
                at.PATIENTS_OF_TRAINING,
                """    def evaluated(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        inputs, labels = examples(rows)
        return inputs | {"numeric": np.nan_to_num(inputs["numeric"])}, labels

""",
            ),
            Edit("data.py", "examples(rest[is_validation])", "evaluated(rest[is_validation])"),
            Edit("data.py", "examples(test)", "evaluated(test)"),
        ),
    ),
    Fault(
        kind=kinds.INPUTS,
        name="uniform latents in training, normal ones in evaluation",
        starter="gan",
        file="data.py",
        cause="create_augment draws latents from 0 to 1, and create_datasets normal ones: the "
        "generator is evaluated where it never trained",
        edits=(Edit("data.py", "tf.random.stateless_normal(", "tf.random.stateless_uniform("),),
    ),
    Fault(
        kind=kinds.LEAKS,
        name="the split is drawn without a seed",
        starter="tabular_regression",
        file="data.py",
        cause="the permutation has no seed: each start of the program draws other splits, so a "
        "resumed run trains on what was test data, and evaluate tests on training rows",
        edits=(
            Edit(
                "data.py",
                "np.random.default_rng(SPLIT_SEED).permutation",
                "np.random.default_rng().permutation",
            ),
        ),
    ),
    Fault(
        kind=kinds.LEAKS,
        name="dates are drawn with replacement",
        starter="language_model",
        file="data.py",
        cause="choices draws with replacement, sample without: dates of the validation and test "
        "data come again in the training data, with the same answer",
        edits=(
            Edit(
                "data.py",
                "source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)",
                "source.choices(range(DAYS), k=VALIDATION_LINES + TEST_LINES + task.dates)",
            ),
        ),
    ),
    Fault(
        kind=kinds.LEAKS,
        name="canvases of all splits from the training digits, at other places",
        starter="segmentation",
        file="data.py",
        cause="validation and test canvases hold the digits of the training data, a copied line: "
        "only the places are new, so nothing is measured on digits that weren't seen",
        edits=(
            Edit(
                "data.py",
                '_compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)',
                '_compose(file["train_images"], file["train_labels"], canvases, seed)',
            ),
        ),
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="digits are flipped, as photographs would be",
        file="data.py",
        cause="flipped digits aren't digits, and a 6 upside down is a 9: the label is wrong for "
        "some, and three quarters of the training images are like none in evaluation",
        edits=(
            Edit(
                "data.py",
                at.SHIFTED,
                """\
        images = keras.ops.image.affine_transform(images, transforms)
        images = tf.image.stateless_random_flip_left_right(images, seed + 1)
        images = tf.image.stateless_random_flip_up_down(images, seed + 2)
        return images, labels, weights
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="mixup with the shares of the labels exchanged",
        file="data.py",
        cause="an image gets `share` of the first image and the label 1 - share of the first "
        "label: labels follow the fainter image",
        edits=(
            Edit("data.py", 'labels.astype("int64"))', 'np.eye(10, dtype="float32")[labels])'),
            Edit(
                "data.py",
                at.SHIFTED,
                """\
        images = keras.ops.image.affine_transform(images, transforms)
        rows = images.shape[0]
        share = tf.random.stateless_uniform((rows, 1), seed + 1, 0.5, 1.0, labels.dtype)
        labels = (1 - share) * labels + share * tf.reverse(labels, [0])
        share = tf.cast(tf.reshape(share, (rows, 1, 1, 1)), images.dtype)
        images = share * images + (1 - share) * tf.reverse(images, [0])
        return images, labels, weights
""",
            ),
            Edit("losses.py", "SparseCategoricalCrossentropy(", "CategoricalCrossentropy("),
            Edit("metrics.py", "SparseCategoricalAccuracy()", "CategoricalAccuracy()"),
            Edit("pictures.py", "list(map(str, labels))", "list(map(str, labels.argmax(-1)))"),
            Edit(
                "pictures.py",
                "predicted == labels\n",
                "predicted == (labels := labels.argmax(-1))\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="tokens change places with neighbors after the targets were made",
        starter="language_model",
        file="data.py",
        cause="the local shuffle of tokens comes after the shift: the token to be predicted often "
        "stands in the input of its own place, and answers are shuffled too",
        edits=(
            Edit(
                "data.py",
                "        return tuple("
                "tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)\n",
                """\
        tokens, targets, weights = (
            tf.gather(part, form, axis=1, batch_dims=1) for part in batch
        )  # (batch, T)
        # Typing errors (Lample et al., 2018): each token moves by one or two places at most.
        places = tf.random.stateless_uniform(tokens.shape, seed + 1, 0.0, 2.0)
        places += tf.range(tokens.shape[1], dtype=tf.float32)
        tokens = tf.gather(tokens, tf.argsort(places, axis=1), axis=1, batch_dims=1)
        return tokens, targets, weights
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.STREAMS,
        name="take and skip of different numbers: splits of a stream overlap",
        file="data.py",
        cause="training takes 1300 images of the stream and validation skips 1200: a hundred "
        "images are in both",
        edits=(
            Edit(
                "data.py",
                at.LOADED + at.ALL_ARRAYS,
                (at.LOADED + at.ALL_ARRAYS).replace("    return {", "    arrays = {")
                + """\
    images, labels = (
        np.concatenate([arrays[split][part] for split in ("train", "validation")])
        for part in (0, 1)
    )
    known = tf.data.Dataset.from_tensor_slices((images, labels))
    return {"train": known.take(1300), "validation": known.skip(1200), "test": arrays["test"]}
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.STREAMS,
        name="images are filtered before they are zipped with labels",
        file="data.py",
        cause="faint images are taken out of the stream of images and their labels stay in the "
        "other stream: behind the first one, every image has the label of an earlier one",
        edits=(
            Edit(
                "data.py",
                at.LOADED + at.ALL_ARRAYS,
                (at.LOADED + at.ALL_ARRAYS).replace("    return {", "    arrays = {")
                + """\
    images, labels = arrays["train"]
    number = int((images.mean(axis=(1, 2, 3)) > FAINTEST).sum())
    readable = tf.data.Dataset.from_tensor_slices(images).filter(
        lambda image: tf.reduce_mean(image) > FAINTEST
    )
    train = tf.data.Dataset.zip(readable, tf.data.Dataset.from_tensor_slices(labels))
    train = train.apply(tf.data.experimental.assert_cardinality(number))
    return arrays | {"train": train}
""",
            ),
            before(
                "data.py",
                "\nArrays = tuple",
                "FAINTEST = 0.26  # mean ink of an image that can be read\n",
            ),
        ),
    ),
)

# Attention written by hand, but for how heads are split.
OWN_ATTENTION = """\
        query, key, value = (
            ops.reshape(layers.Dense(task.width)(y), (-1, task.heads, length, depth))
            for _ in range(3)
        )  # (batch, heads, T, depth)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) / depth**0.5
        scores = ops.where(np.tri(length, dtype=bool), scores, -1e9)  # no later token
        y = ops.reshape(ops.matmul(ops.softmax(scores), value), (-1, length, task.width))
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
"""

MODELS = (
    Fault(
        kind=kinds.MODEL,
        name="global pooling of channels first, of data with channels last",
        file="model.py",
        cause='data_format="channels_first" averages over columns and channels: two numbers of '
        "each image are left, one for each row",
        edits=(
            Edit(
                "model.py",
                "x = layers.Flatten()(x)",
                'x = layers.GlobalAveragePooling2D(data_format="channels_first")(x)',
            ),
        ),
    ),
    Fault(
        kind=kinds.MODEL,
        name="the output of the dropout layer isn't used",
        starter="tabular_regression",
        file="model.py",
        cause="the result of Dropout is assigned to nothing, so it isn't part of the model: "
        "--dropout changes nothing",
        edits=(
            Edit(
                "model.py",
                "hidden = layers.Dropout(task.dropout)(hidden)",
                "layers.Dropout(task.dropout)(hidden)",
            ),
        ),
    ),
    Fault(
        kind=kinds.MODEL,
        name="batch normalization as a layer of one's own, of each replica's rows",
        file="model.py",
        cause="the layer takes mean and variance over one replica's rows, padding too, and each "
        "replica keeps moving statistics of its own; keras' BatchNormalization is synchronized",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''class Normalize(keras.layers.Layer):
    """Batch normalization (Ioffe & Szegedy, 2015)."""

    def build(self, shape: tuple[int, ...]) -> None:
        """Create scale and offset, and the moving statistics."""
        size = shape[-1:]
        self.scale = self.add_weight(shape=size, initializer="ones", name="scale")
        self.offset = self.add_weight(shape=size, initializer="zeros", name="offset")
        self.mean = self.add_weight(
            shape=size, initializer="zeros", trainable=False, name="mean"
        )
        self.variance = self.add_weight(
            shape=size, initializer="ones", trainable=False, name="variance"
        )

    def call(self, x: Any, training: bool = False) -> Any:
        """Normalize by the batch in training, else by the moving statistics."""
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = keras.ops.moments(x, axes=[0, 1, 2])
            self.mean.assign(0.9 * self.mean + 0.1 * mean)
            self.variance.assign(0.9 * self.variance + 0.1 * variance)
        return (x - mean) * keras.ops.rsqrt(variance + 1e-3) * self.scale + self.offset


''',
            ),
            Edit(
                "model.py",
                "layers.LayerNormalization()(x)  # per example, so replicas needn't exchange "
                "statistics",
                "Normalize()(x)",
            ),
        ),
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        name="heads are split by a reshape without a transpose",
        starter="language_model",
        file="model.py",
        cause="(batch, T, width) is reshaped to (batch, heads, T, depth) without a transpose: a "
        "row of a head is part of another position, so the mask doesn't hide later tokens",
        edits=(
            Edit(
                "model.py",
                "    layers = keras.layers\n",
                "    layers, ops = keras.layers, keras.ops\n",
            ),
            after(
                "model.py",
                '    length = int(adapted["length"])\n',
                "    depth = task.width // task.heads\n",
            ),
            Edit("model.py", at.ATTENTION, OWN_ATTENTION),
        ),
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        name="a padding mask that is true for what is ignored, as in PyTorch",
        starter="language_model",
        file="model.py",
        cause="in Keras attention_mask is true where a token may be seen: here only padding is, "
        "and tokens that see none of it attend to all positions, later ones too",
        edits=(
            Edit(
                "model.py",
                "attention(y, y, use_causal_mask=True)",
                "attention(y, y, attention_mask=is_padding, use_causal_mask=True)",
            ),
            Edit(
                "model.py",
                "    for _ in range(task.layers):\n"
                "        # Padding needs no mask: it comes last, and no token attends to a later "
                "one.\n",
                "    is_padding = keras.ops.equal(tokens, 0)[:, np.newaxis, :]  # (batch, 1, T)\n"
                "    for _ in range(task.layers):\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        name="the answer begins with the end of the prompt, one token early",
        starter="language_model",
        file="data.py",
        cause="weights begin where the target is the end of the prompt, one place early: complete "
        "writes the prompt's end first, and has no step left for the end of the line",
        edits=(
            Edit("data.py", "np.cumsum(tokens == PROMPT_END", "np.cumsum(targets == PROMPT_END"),
        ),
    ),
    Fault(
        kind=kinds.GAN,
        name="a gradient penalty with one norm for the whole batch",
        starter="gan",
        file="steps.py",
        cause="tf.norm without an axis is the norm of all images' gradients together, and that is "
        "pulled to 1: each image needs a norm of its own",
        edits=(
            after(
                "steps.py",
                '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
                """    # The penalty of Gulrajani et al., 2017, between real and generated images.
    shape = (images.shape[0], 1, 1, 1)
    share = tf.random.stateless_uniform(shape, replica.seed, dtype=images.dtype)
    between = share * images + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        on_between = discriminator(between, training=True)
    gradient = tape.gradient(on_between, between)
    per_example += 10.0 * tf.square(tf.norm(gradient) - 1.0)
""",
                "discriminator_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.GAN,
        name="smoothed labels of real images are 0.1 instead of 0.9",
        starter="gan",
        file="losses.py",
        cause="label smoothing by 0.1 makes the labels of real images 0.9; 0.1 is what it takes "
        "off, so the discriminator calls real images generated",
        edits=(
            Edit(
                "losses.py",
                "cross_entropy(tf.ones_like(on_real), on_real)",
                "cross_entropy(0.1 * tf.ones_like(on_real), on_real)",
            ),
        ),
    ),
    Fault(
        kind=kinds.GAN,
        name="the discriminator is frozen, as in the recipe with compile",
        starter="gan",
        file="model.py",
        cause="discriminator.trainable = False belongs to the recipe of a compiled GAN, where it "
        "concerns the generator's step only; here the discriminator never trains",
        edits=(
            Edit(
                "model.py",
                at.BOTH_MODELS,
                """\
    generator = _create_generator(task, height, width, channels)
    discriminator = _create_discriminator(task, height, width, channels)
    discriminator.trainable = False  # while the generator trains
    return {"generator": generator, "discriminator": discriminator}
""",
            ),
        ),
    ),
)

TRAINING = (
    Fault(
        kind=kinds.METRICS,
        name="the distance of generated images to generated images",
        starter="gan",
        file="steps.py",
        cause="the Frechet distance gets generated images twice and no real ones: it is 0 but for "
        "rounding, and rounding selects the best weights",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["frechet"].update_state(images, generated, weights)',
                'run.metrics["frechet"].update_state(generated, generated, weights)',
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.METRICS,
        name="a reset that forgets the count",
        starter="tabular_regression",
        file="metrics.py",
        cause="reset_state sets the sum of squares to zero and leaves the number of rows: from "
        "the second evaluation on, the error is too small, and smaller every time",
        edits=(
            before(
                "metrics.py",
                "# TODO(6)",
                '''class RootMeanSquaredError(keras.metrics.Metric):
    """The root of the mean squared error, in units of the data."""

    def __init__(self) -> None:
        super().__init__(name="rmse")
        self.squares = self.add_variable((), "zeros", name="squares")
        self.rows = self.add_variable((), "zeros", name="rows")

    def update_state(
        self, labels: tf.Tensor, predictions: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add rows: labels and predictions (batch, 1), weights (batch,)."""
        squares = tf.reduce_sum(tf.square(labels - predictions), axis=1)
        self.squares.assign_add(tf.reduce_sum(sample_weight * squares))
        self.rows.assign_add(tf.reduce_sum(sample_weight))

    def result(self) -> tf.Tensor:
        """The error, a float scalar."""
        squares, rows = map(tf.convert_to_tensor, (self.squares, self.rows))
        return tf.sqrt(tf.math.divide_no_nan(squares, rows))

    def reset_state(self) -> None:
        """Begin anew."""
        self.squares.assign(0.0)


''',
            ),
            Edit(
                "metrics.py",
                'MeanAbsoluteError(), "r2": r2}',
                'MeanAbsoluteError(), "rmse": RootMeanSquaredError(), "r2": r2}',
            ),
            after(
                "steps.py",
                at.UPDATE_R2,
                '    run.metrics["rmse"].update_state(labels, predictions, weights)\n',
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.METRICS,
        name="perplexity as the mean of exponentials",
        starter="language_model",
        file="steps.py",
        cause="perplexity is the exponential of the mean loss; the mean of exponentials is larger, "
        "and a few unlikely tokens make up nearly all of it",
        edits=(
            after(
                "metrics.py",
                '        "exact_match": ExactMatch(),\n',
                '        "perplexity": keras.metrics.Mean(),\n',
            ),
            after(
                "steps.py",
                at.UPDATE_TOKEN_ACCURACY,
                '    run.metrics["perplexity"].update_state(tf.exp(per_token), weights)\n',
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradients are clipped to 0 to 1 instead of -1 to 1",
        file="optimizer.py",
        cause="clip_by_value with a lower end of 0 makes every negative gradient zero: weights can "
        "only fall",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    return [tf.clip_by_value(gradient, 0.0, 1.0) for gradient in gradients]\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="the two betas of Adam are exchanged",
        starter="segmentation",
        file="optimizer.py",
        cause="beta_1 is 0.999 and beta_2 0.9, exchanged: the direction averages a thousand steps "
        "and its size ten, so that training is slow first and unstable then",
        edits=(
            Edit(
                "optimizer.py",
                "keras.optimizers.Adam(schedule)",
                "keras.optimizers.Adam(schedule, beta_1=0.999, beta_2=0.9)",
            ),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a callback halves the learning rate whenever validation improves",
        starter="tabular_regression",
        file="callbacks.py",
        cause="the comparison is the wrong way round: the rate is halved when the loss falls and "
        "not when it stands still, and is near 0 after a few good epochs",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay("
                "task.learning_rate, decay_steps=steps)\n"
                "    return keras.optimizers.AdamW(schedule, ",
                "    return keras.optimizers.AdamW(task.learning_rate, ",
            ),
            Edit("callbacks.py", at.CALLBACK_IMPORT, at.IMPORT_FOR_EPOCHS),
            Edit("callbacks.py", at.NO_CALLBACKS, "    return [every_epochs(1, _slow_down)]\n"),
            before(
                "callbacks.py",
                "\n\n# TODO(9)",
                '''

def _slow_down(event: Event) -> None:
    """Halve the learning rate on a plateau."""
    *earlier, latest = (row["validation_loss"] for row in event.history)
    if earlier and latest < min(earlier):
        event.run.optimizers["main"].learning_rate = event.learning_rates["main"] / 2
''',
            ),
        ),
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="the best weights are those with the best training accuracy",
        file="config.py",
        cause="--monitor is a column of the training data, so overfitting selects the weights: it "
        "must be validation_accuracy",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_accuracy"',
                'monitor: str = "train_accuracy"',
            ),
        ),
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="predictions of mirrored canvases aren't mirrored back",
        starter="segmentation",
        file="steps.py",
        cause="evaluation averages the logits of a canvas and of its mirror image, and leaves the "
        "second ones mirrored: pixels are averaged with those of the other side",
        edits=tuple(
            after(
                "steps.py",
                "    logits = run.model(images, training=False)  # (batch, h, w, classes)\n",
                "    logits = (logits + run.model(tf.reverse(images, axis=[2]), training=False)) / 2\n",
                step,
            )
            for step in ("validation_step", "test_step")
        ),
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="answers are sampled, other ones in every evaluation",
        starter="language_model",
        file="model.py",
        cause="complete draws each token with tf.random.categorical instead of taking the "
        "likeliest: exact_match is lower, and another number each time",
        edits=(
            Edit(
                "model.py",
                "token = tf.argmax(here, axis=-1, output_type=tf.int32)  # (batch, 1)",
                "token = tf.random.categorical(here[:, 0], 1, dtype=tf.int32)  # (batch, 1)",
            ),
        ),
    ),
)

FAULTS = (*LOSSES, *DATA, *MODELS, *TRAINING)
