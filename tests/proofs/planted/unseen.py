"""Faults and correct tasks that were written without a look at `check`, or at the other faults."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before, train_weights

# Texts of the starters that several changes replace.
MAIN = '{"main": compute_loss(per_example, weights, run.model, replica)}'
TF = "import tensorflow as tf\n"
ACCURACY = '    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}\n'

LOSSES = (
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a weighted mean on each replica, divided by the replicas",
        starter="tabular_regression",
        file="losses.py",
        cause="each replica divides by the sum of its own weights, so an example's share depends "
        "on the others of its replica, and a replica with padding only counts as a full one",
        edits=(
            Edit(
                "losses.py",
                at.AVERAGE,
                "    loss = tf.reduce_sum(per_example * weights)\n"
                "    loss = tf.math.divide_no_nan(loss, tf.reduce_sum(weights))\n"
                "    loss = loss / replica.num_replicas\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="feature matching by the mean images of a replica",
        starter="gan",
        file="steps.py",
        cause="the distance of two means over one replica's rows is added behind compute_loss: the "
        "replicas' distances add up, and the mean is over fewer rows on more replicas",
        edits=(
            Edit(
                "steps.py",
                "    _, latents, weights = batch\n",
                "    images, latents, weights = batch\n",
                "generator_step",
            ),
            Edit(
                "steps.py",
                '    return {"generator": compute_loss(per_example, weights, generator, replica)}\n',
                """\
    gap = tf.reduce_mean(images, axis=0) - tf.reduce_mean(generated, axis=0)
    matching = tf.reduce_sum(tf.square(gap))
    return {"generator": compute_loss(per_example, weights, generator, replica) + matching}
""",
                "generator_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="R-Drop: compute_loss for each of two terms",
        file="steps.py",
        cause="compute_loss adds the model's regularization, and is called twice in the train "
        "step: L2 counts one and a half times, in training only",
        edits=(
            before("steps.py", TF, "import keras\n"),
            Edit(
                "steps.py",
                f"    return {MAIN}\n",
                """\
    again = run.model(images, training=True)  # with other units dropped
    gap = keras.losses.kl_divergence(tf.nn.softmax(predictions), tf.nn.softmax(again))  # (batch,)
    loss = compute_loss(per_example, weights, run.model, replica)
    return {"main": loss + 0.5 * compute_loss(gap, weights, run.model, replica)}
""",
                "train_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="all tokens that aren't padding are counted, prompts too",
        starter="language_model",
        file="losses.py",
        cause="count counts the tokens of a line, and the loss is summed over the tokens of the "
        "answer only: it is divided by about three times too much, and by more for long prompts",
        edits=(
            Edit(
                "losses.py",
                f"    weights = batch[-1]  # (batch, T), 0 for prompts and padding\n{at.COUNTED}",
                "    tokens = batch[0]  # (batch, T), 0 for padding\n"
                "    return tf.math.count_nonzero(tokens, dtype=tf.int32)\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="the sum of the weights, cast to an int",
        starter="tabular_regression",
        file="losses.py",
        cause="each replica's sum of weights is rounded down before they are added: the loss is "
        "divided by less on more replicas",
        edits=(
            Edit("losses.py", at.COUNTED, "    return tf.cast(tf.reduce_sum(weights), tf.int32)\n"),
        ),
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="pixels are counted under a loss that is a mean over pixels",
        starter="segmentation",
        file="losses.py",
        cause="average_over_pixels has divided by the pixels of an image, and count makes "
        "compute_loss divide by all pixels of the batch: the loss is a thousandth of what it "
        "says",
        edits=(
            Edit(
                "losses.py",
                at.COUNT,
                "    labels = batch[1]  # (batch, h, w)\n"
                "    return tf.math.count_nonzero(labels != IGNORED, dtype=tf.int32)\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="the loss is divided by the micro-batches, as in PyTorch",
        file="losses.py",
        cause="global_count is that of the whole batch already: dividing by the micro-batches too "
        "makes loss and gradients half as large under --accumulate 2",
        flags=("--accumulate", "2"),
        edits=(
            Edit(
                "losses.py",
                at.REGULARIZED,
                "    loss = loss + tf.nn.scale_regularization_loss(replica.regularization(model))\n"
                "    return loss / replica.num_microbatches\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="images and labels are shuffled after their weights were made",
        file="data.py",
        cause="the weights keep the old order, so that they weigh other examples",
        edits=train_weights(
            "    weights = np.where((labels == 1) | (labels == 7), 0.5, 1.125)  # often mislabelled\n"
            "    order = np.random.default_rng(0).permutation(len(labels))\n"
            "    images, labels = images[order], labels[order]\n"
        ),
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="weights of the answer start one token early",
        starter="language_model",
        file="data.py",
        cause="the end of the prompt is looked for in the targets: the model has to predict the "
        '">" of the prompt, and the test cuts it off the prompts and the last token off answers',
        edits=(
            Edit(
                "data.py",
                "is_answer = np.cumsum(tokens == PROMPT_END, axis=1) > 0",
                "is_answer = np.cumsum(targets == PROMPT_END, axis=1) > 0",
            ),
        ),
    ),
)

DATA = (
    Fault(
        kind=kinds.LABELS,
        name="each split's labels are standardized by their own mean",
        starter="tabular_regression",
        file="data.py",
        cause="mean and deviation are those of each split: predictions are compared with labels on "
        "another scale than they were trained on, and the mean of the test data leaks",
        edits=(
            Edit(
                "data.py",
                at.PATIENTS,
                """\
        labels = target[rows, np.newaxis]
        labels = (labels - labels.mean()) / labels.std()
        return {"numeric": numeric, "sex": sex}, labels
""",
            ),
            Edit("losses.py", "LABEL_DEVIATION = 77.0", "LABEL_DEVIATION = 1.0"),
        ),
    ),
    Fault(
        kind=kinds.LABELS,
        name="targets are shifted in the data, and in the loss again",
        starter="language_model",
        file="steps.py",
        cause="the targets are the next tokens already: shifted once more, the loss asks for the "
        "token after the next one",
        edits=(
            Edit(
                "steps.py",
                'run.losses["main"](targets, logits)  # (batch, T)',
                'run.losses["main"](targets[:, 1:], logits[:, :-1])  # (batch, T - 1)',
                "*",
            ),
            Edit(
                "steps.py",
                "compute_loss(per_token, weights, run.model, replica)",
                "compute_loss(per_token, weights[:, 1:], run.model, replica)",
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.LABELS,
        name="training images and labels are shuffled one after the other",
        file="data.py",
        cause="two calls of shuffle draw two orders: images no longer stand beside their labels",
        edits=(
            after(
                "data.py",
                at.LOADED,
                """\
    random = np.random.default_rng(0)
    for part in splits["train"]:
        random.shuffle(part)
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.INPUTS,
        name="missing values are filled with 0 before they are scaled",
        starter="tabular_regression",
        file="data.py",
        cause="nan_to_num makes a blood pressure of 0 from a missing one: it distorts mean and "
        "variance, and the model's inputs for missing values are never set",
        edits=(
            Edit(
                "data.py",
                "numeric = np.delete(data[rows], category, axis=1)",
                "numeric = np.nan_to_num(np.delete(data[rows], category, axis=1))",
            ),
        ),
    ),
    Fault(
        kind=kinds.INPUTS,
        name="gray values are scaled by an integer division",
        file="data.py",
        cause="// rounds down: all gray values but the darkest become 0",
        edits=(Edit("data.py", '_images"] / 16', '_images"] // 16'),),
    ),
    Fault(
        kind=kinds.INPUTS,
        name="training lines are put into lower case",
        starter="language_model",
        file="data.py",
        cause="only the training lines are normalized: the model never sees the capitals that most "
        "lines of the validation and test data have",
        edits=(
            Edit(
                "data.py",
                "text += [_line(date, form, source) for",
                "text += [_line(date, form, source).lower() for",
            ),
        ),
    ),
    Fault(
        kind=kinds.LEAKS,
        name="days are drawn with replacement",
        starter="language_model",
        file="data.py",
        cause="choices draws a day several times: days of the validation and test lines are among "
        "those of the training data",
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
        name="validation rows stay in the training data",
        starter="tabular_regression",
        file="data.py",
        cause="training takes all rows that aren't test data, with those of the validation",
        edits=(
            Edit(
                "data.py",
                "inputs, labels = examples(rest[~is_validation])",
                "inputs, labels = examples(rest)",
            ),
        ),
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="mixup of the images without their labels",
        file="data.py",
        cause="an image is mixed with another one by a share from 0 to 1, and keeps its own label "
        "however little of it is left",
        edits=(
            Edit(
                "data.py",
                at.SHIFTED,
                """\
        images = keras.ops.image.affine_transform(images, transforms)
        shape = (images.shape[0], 1, 1, 1)
        share = tf.random.stateless_uniform(shape, seed + 1, dtype=images.dtype)
        return share * images + (1 - share) * tf.reverse(images, [0]), labels, weights
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="the contrast of a batch is drawn with NumPy",
        starter="segmentation",
        file="data.py",
        cause="tf.data traces augment once, so np.random draws one number for the whole run; it "
        "comes neither from the seed nor again on resume",
        edits=(
            before(
                "data.py",
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
                "        images = images * np.random.uniform(0.7, 1.3)\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="both directions of the shift are drawn with one seed",
        file="data.py",
        cause="stateless draws from the same seed are equal: images move along one diagonal only",
        edits=(
            Edit(
                "data.py",
                at.SHIFTS + at.SHIFTS_OF_AXES,
                """\
        shape = (images.shape[0], 1)
        dx = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)
        dy = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.STREAMS,
        name="a stream is shuffled, then split by take and skip",
        file="data.py",
        cause="shuffle draws a new order for each pass, so that the 300 validation images are other "
        "ones each time, and were trained on",
        edits=(
            Edit(
                "data.py",
                at.ALL_ARRAYS,
                """\
    images, labels = (
        np.concatenate([splits[split][part] for split in ("train", "validation")])
        for part in (0, 1)
    )
    arrays = (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
    stream = tf.data.Dataset.from_tensor_slices(arrays).shuffle(len(labels), seed=0)
    images, labels = splits["test"]
    return {
        "train": stream.skip(300),
        "validation": stream.take(300),
        "test": (images.astype("float32")[..., np.newaxis], labels.astype("int64")),
    }
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.STREAMS,
        name="validation canvases are composed anew in every pass",
        starter="segmentation",
        file="data.py",
        cause="the generator composes from no seed: every validation sees other canvases, so that "
        "its numbers can't be compared, nor made again",
        edits=(
            Edit(
                "data.py",
                at.COMPOSED,
                """\
        arrays = {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
        digits, classes = file["validation_images"], file["validation_labels"]

    def endless() -> Any:
        yield from zip(*_compose(digits, classes, CANVASES["validation"], None), strict=True)

    signature = (
        tf.TensorSpec((CANVAS, CANVAS, 1), tf.float32),
        tf.TensorSpec((CANVAS, CANVAS), tf.int32),
    )
    stream = tf.data.Dataset.from_generator(endless, output_signature=signature)
    cardinality = tf.data.experimental.assert_cardinality(CANVASES["validation"])
    return arrays | {"validation": stream.apply(cardinality)}
""",
            ),
        ),
    ),
)

MODELS = (
    Fault(
        kind=kinds.MODEL,
        name="the train step doesn't say that it trains",
        starter="segmentation",
        file="steps.py",
        cause="without training=True Keras takes the model for inference: BatchNormalization uses "
        "its initial moving averages, and never updates them",
        edits=(
            Edit("steps.py", "run.model(images, training=True)", "run.model(images)", "train_step"),
        ),
    ),
    Fault(
        kind=kinds.MODEL,
        name="attention pooling with a softmax over the batch",
        file="model.py",
        cause="axis=0 is the batch: the weights of a place add up to 1 over the images of a "
        "replica, so that a prediction depends on the other images",
        edits=(
            Edit(
                "model.py",
                "    x = layers.Flatten()(x)\n",
                """\
    x = layers.Reshape((-1, 64))(x)  # (batch, places, 64)
    attention = keras.ops.softmax(layers.Dense(1)(x), axis=0)
    x = keras.ops.sum(attention * x, axis=1)  # (batch, 64)
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        name="a convolution over neighbors on both sides",
        starter="language_model",
        file="model.py",
        cause='padding="same" looks at the next token, which is the one to be predicted: '
        '"causal" is needed; the test, which has to write it, fails',
        edits=(
            after(
                "model.py",
                at.POSITIONS,
                '    x = x + layers.Conv1D(task.width, 3, padding="same", activation="gelu")(x)\n',
            ),
        ),
    ),
    Fault(
        kind=kinds.MODEL,
        name="all layers but the last are frozen, at random values",
        file="model.py",
        cause="the layers are frozen as for fine-tuning, and nothing loads trained weights into "
        "them: only the last layer learns, on random features",
        edits=(
            Edit(
                "model.py",
                "    return keras.Model(images, logits)\n",
                """\
    model = keras.Model(images, logits)
    for layer in model.layers:
        layer.trainable = layer.name == "logits"  # fine-tune the head
    return model
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.MODEL,
        name="a ReLU on the standardized prediction",
        starter="tabular_regression",
        file="model.py",
        cause="the labels are positive, but the last layer predicts standardized ones, half of "
        "which are negative: nothing below the mean can be predicted",
        edits=(
            Edit(
                "model.py",
                "    x = layers.Dense(1, dtype=floatx)",
                '    x = layers.Dense(1, "relu", dtype=floatx)',
            ),
        ),
    ),
    Fault(
        kind=kinds.MODEL,
        name="stochastic depth that doesn't scale what it keeps",
        starter="language_model",
        file="model.py",
        cause="branches are left out for 30% of the rows in training and the others aren't divided "
        "by 0.7: in evaluation every branch is larger than it was in training",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''class DropPath(keras.layers.Layer):
    """Leaves a branch out, for some rows of a training batch."""

    def __init__(self, rate: float = 0.3) -> None:
        super().__init__()
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, x: Any, training: bool = False) -> Any:
        """float (batch, T, width) -> the same."""
        if not training:
            return x
        shape = (keras.ops.shape(x)[0], 1, 1)
        drawn = keras.random.uniform(shape, seed=self.seed_generator)
        return keras.ops.where(drawn >= self.rate, x, keras.ops.zeros_like(x))


''',
            ),
            Edit(
                "model.py",
                "x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))",
                "x = x + DropPath()(attention(y, y, use_causal_mask=True))",
            ),
            Edit(
                "model.py",
                "x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))",
                "x = x + DropPath()(layers.Dense(task.width)(y))",
            ),
        ),
    ),
    Fault(
        kind=kinds.MODEL,
        name="noise on training images from tf.random.normal",
        file="steps.py",
        cause="tf.random.normal has a state outside of the run: a resumed run draws other noise, "
        "and N replicas draw other noise than one; replica.seed is for that",
        edits=(
            after(
                "steps.py",
                "    images, labels, weights = batch\n",
                "    images = images + 0.1 * tf.random.normal(tf.shape(images), dtype=images.dtype)\n",
                "train_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.GAN,
        name="a sigmoid before a cross-entropy of logits",
        starter="gan",
        file="model.py",
        cause="the loss has from_logits=True, and the discriminator ends with a sigmoid: what "
        "should be logits is between 0 and 1, so that it can never be sure",
        edits=(
            Edit(
                "model.py",
                'layers.Dense(1, dtype=keras.config.floatx(), name="logits")',
                'layers.Dense(1, "sigmoid", dtype=keras.config.floatx(), name="logits")',
            ),
        ),
    ),
    Fault(
        kind=kinds.GAN,
        name="a hinge loss with its signs exchanged",
        starter="gan",
        file="losses.py",
        cause="the discriminator learns to give low logits to real images and high ones to "
        "generated ones, and the generator still seeks high ones: both pull the same way",
        edits=(
            Edit(
                "losses.py",
                at.DISCRIMINATOR_LOSS,
                """\
        loss_on_real = tf.nn.relu(1 + on_real)[:, 0]  # (batch,)
        loss_on_generated = tf.nn.relu(1 - on_generated)[:, 0]  # (batch,)
        return (loss_on_real + loss_on_generated) / 2
""",
            ),
            Edit(
                "losses.py", at.GENERATOR_LOSS, "        return -on_generated[:, 0]  # (batch,)\n"
            ),
        ),
    ),
    Fault(
        kind=kinds.GAN,
        name="a gradient penalty with one norm for all rows",
        starter="gan",
        file="steps.py",
        cause="tf.norm without axes is the norm over all rows of a replica, not of each: the "
        "penalty asks for slopes that are the smaller the more rows there are",
        edits=(
            before(
                "steps.py",
                '    run.metrics["frechet"]',
                """    shape = (tf.shape(images)[0], 1, 1, 1)
    share = tf.random.stateless_uniform(shape, replica.seed, dtype=images.dtype)
    between = share * images + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        on_between = discriminator(between, training=True)
    slopes = tape.gradient(on_between, between)  # (batch, h, w, channels)
    per_example += 10.0 * tf.square(tf.norm(slopes) - 1.0)
""",
                "discriminator_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.GAN,
        name="the generator ends with tanh, real images are in [0, 1]",
        starter="gan",
        file="model.py",
        cause="generated images are in [-1, 1], half of which no real image has",
        edits=(
            Edit(
                "model.py",
                'padding="same", activation="sigmoid", dtype=floatx)',
                'padding="same", activation="tanh", dtype=floatx)',
            ),
        ),
    ),
)

TRAINING = (
    Fault(
        kind=kinds.METRICS,
        name="the accuracy of tokens gets no weights",
        starter="language_model",
        file="steps.py",
        cause="token_accuracy counts prompts, the zeros behind lines and padded rows as well",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["token_accuracy"].update_state(targets, logits, weights)',
                'run.metrics["token_accuracy"].update_state(targets, logits)',
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.METRICS,
        name="an RMSE that is the mean of the batches' RMSEs",
        starter="tabular_regression",
        file="steps.py",
        cause="the root is taken in each replica's batch and then averaged: the result depends on "
        "batch size and replicas, and padding counts in it",
        edits=(
            Edit("metrics.py", '"r2": r2}', '"r2": r2, "rmse": keras.metrics.Mean()}'),
            after(
                "steps.py",
                at.UPDATE_R2,
                "    error = tf.sqrt(tf.reduce_mean(tf.square(labels - predictions)))\n"
                '    run.metrics["rmse"].update_state(error)\n',
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.METRICS,
        name="a reported term is the mean over one replica's rows",
        file="steps.py",
        cause="what steps return is added over the replicas: the term is N times too large on N "
        "replicas, and padding counts in it",
        edits=(
            Edit("steps.py", at.NO_TERMS, 'TERMS: tuple[str, ...] = ("cross_entropy",)\n'),
            Edit(
                "steps.py",
                f"    return {MAIN}\n",
                "    loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss, "cross_entropy": tf.reduce_mean(per_example)}\n',
                "*",
            ),
        ),
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="the test step is a copy of the train step",
        starter="segmentation",
        file="steps.py",
        cause="training=True in the test: BatchNormalization normalizes by the test batch and "
        "moves its statistics",
        edits=(
            Edit(
                "steps.py",
                "run.model(images, training=False)",
                "run.model(images, training=True)",
                "test_step",
            ),
        ),
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="the best weights are those of the largest loss",
        starter="tabular_regression",
        file="config.py",
        cause="larger_is_better is True and --monitor is a loss: the worst weights are kept",
        edits=(
            Edit("config.py", "larger_is_better: bool = False", "larger_is_better: bool = True"),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a decay meant for each epoch, in each step",
        file="optimizer.py",
        cause="schedules count steps: decay_steps=1 takes 5% off in every step, and after an "
        "eighth of the run the learning rate is 3% of its start",
        edits=(
            Edit(
                "optimizer.py",
                at.SCHEDULE,
                """\
    schedule = keras.optimizers.schedules.ExponentialDecay(
        task.learning_rate, decay_steps=1, decay_rate=0.95
    )
""",
            ),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a plateau is remembered in a closure",
        starter="tabular_regression",
        file="callbacks.py",
        cause="the best loss and the epochs since then aren't in a checkpoint, for the callback "
        "has no get_state and set_state: a resumed run halves the learning rate at other steps",
        edits=(
            Edit("callbacks.py", at.CALLBACK_IMPORT, at.IMPORT_FOR_EPOCHS),
            Edit(
                "callbacks.py",
                at.NO_CALLBACKS,
                """\
    best, waited = float("inf"), 0

    def reduce_on_plateau(event: Event) -> None:
        nonlocal best, waited
        if not event.history:
            return
        loss = event.history[-1]["validation_loss"]
        waited = 0 if loss < best else waited + 1
        best = min(best, loss)
        if waited == 2:
            event.run.optimizers["main"].learning_rate = event.learning_rates["main"] / 2
            waited = 0

    return [every_epochs(1, reduce_on_plateau)]
""",
            ),
            Edit("optimizer.py", at.SCHEDULE, ""),
            Edit(
                "optimizer.py",
                "AdamW(schedule, weight_decay",
                "AdamW(task.learning_rate, weight_decay",
            ),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a callback anneals a Python number that the loss reads",
        starter="segmentation",
        file="losses.py",
        cause="the step is traced once and keeps the number's first value: the weight of the "
        "foreground never changes, until a resumed run traces again",
        edits=(
            Edit(
                "callbacks.py", at.CALLBACK_IMPORT, at.IMPORT_FOR_EPOCHS + "from . import losses\n"
            ),
            Edit(
                "callbacks.py",
                at.NO_CALLBACKS,
                """\
    return [every_epochs(1, _anneal)]


def _anneal(event: Event) -> None:
    losses.FOREGROUND = 1.0 + 4.0 * 0.9**event.epoch
""",
            ),
            before(
                "losses.py",
                "# TODO(5)",
                "FOREGROUND = 5.0  # weight of a digit's pixel; falls to 1\n\n\n",
            ),
            Edit("losses.py", "foreground_weight * per_pixel", "FOREGROUND * per_pixel"),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradient noise that every replica draws for itself",
        file="optimizer.py",
        cause="process_gradients runs on each replica, and tf.random.normal gives each another "
        "noise: their weights drift apart, and no run can be made again",
        edits=(
            Edit(
                "optimizer.py",
                at.GRADIENTS,
                "    return [g + tf.random.normal(g.shape, stddev=0.01, dtype=g.dtype) "
                "for g in gradients]\n",
            ),
        ),
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradients are centralized, those of biases too",
        starter="language_model",
        file="optimizer.py",
        cause="a vector has no axis but the last, and its mean over no axes is itself: the "
        "gradients of biases and normalizations become 0, and they never train",
        edits=(
            Edit(
                "optimizer.py",
                at.GRADIENTS,
                """\
    return [
        g - tf.reduce_mean(g, axis=list(range(len(g.shape) - 1)), keepdims=True) for g in gradients
    ]
""",
            ),
        ),
    ),
)

FAULTS = (*LOSSES, *DATA, *MODELS, *TRAINING)

# Of the correct tasks.
BLOCKS = """\
    x = images
    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)  # per example, so replicas needn't exchange statistics
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)
    x = layers.Flatten()(x)
"""
BACKBONE = """\
import keras
import numpy as np

with np.load("my_experiment/task/digits.npz") as file:
    images = (file["train_images"] / 16).astype("float32")[..., np.newaxis]
    labels = file["train_labels"].astype("int64")
layers = keras.layers
keras.utils.set_random_seed(1)
inputs = keras.Input((8, 8, 1))
x = inputs
for filters in (16, 32):
    x = layers.Conv2D(filters, 3, padding="same")(x)
    x = layers.MaxPooling2D()(layers.Activation("relu")(layers.BatchNormalization()(x)))
backbone = keras.Model(inputs, layers.Flatten()(x))
model = keras.Sequential([backbone, layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, batch_size=60, epochs=4, verbose=0)
backbone.save("backbone.keras")
"""


def of_predictions(part: str) -> tuple[Edit, ...]:
    """Metrics and the picture of the table get a part of the predictions."""
    return (
        *(
            Edit(
                "steps.py",
                f'["{name}"].update_state(labels, predictions, weights)',
                f'["{name}"].update_state(labels, predictions{part}, weights)',
                "*",
            )
            for name in ("mae", "r2")
        ),
        Edit(
            "pictures.py",
            "predict_in_parts(run.model, inputs)[:, 0]",
            f"predict_in_parts(run.model, inputs){part}[:, 0]",
        ),
    )


UNSEEN_TASKS = (
    Change(
        name="cross-entropy, and a supervised contrastive term over all replicas",
        edits=(
            Edit("steps.py", "EXAMPLES_INTERACT = False", "EXAMPLES_INTERACT = True"),
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    per_example += 0.3 * contrast(predictions, labels, weights, replica)\n",
                "*",
            ),
            before(
                "steps.py",
                "# TODO(11)",
                '''def contrast(
    features: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, replica: Replica
) -> tf.Tensor:
    """How far rows are from others of their class (Khosla et al., 2020), float (batch,)."""
    features = tf.math.l2_normalize(features, axis=1)
    others = replica.all_gather(features)  # (rows of all replicas, classes)
    there = replica.all_gather(weights) > 0  # False for padding
    rows = tf.shape(features)[0]
    own = replica.index * rows + tf.range(rows)
    compared = there & (own[:, tf.newaxis] != tf.range(tf.shape(others)[0]))  # not with itself
    similarity = tf.matmul(features, others, transpose_b=True) / 0.2
    similarity = tf.where(compared, similarity, -1e9)
    likelihood = similarity - tf.reduce_logsumexp(similarity, axis=1, keepdims=True)
    same = compared & (labels[:, tf.newaxis] == replica.all_gather(labels))
    same = tf.cast(same, features.dtype)
    total = tf.reduce_sum(same * likelihood, axis=1)
    return -tf.math.divide_no_nan(total, tf.reduce_sum(same, axis=1))


''',
            ),
        ),
    ),
    Change(
        name="a mean and a variance for each row, with a loss that may be negative",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                at.PREDICTION,
                at.PREDICTION.replace("Dense(1,", "Dense(2,").replace("(batch, 1)", "(batch, 2)"),
            ),
            Edit(
                "model.py",
                "    return keras.Model(inputs, unscale(x))\n",
                "    parts = [unscale(x[:, :1]), x[:, 1:]]  # the mean, and the log of the variance\n"
                "    return keras.Model(inputs, layers.Concatenate(dtype=floatx)(parts))\n",
            ),
            Edit(
                "losses.py",
                at.STANDARDIZED_ERROR,
                '''\

    def surprise(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """-log of the normal density of standardized labels, but for a constant, float (batch,)."""
        mean, log_variance = tf.unstack(predictions, axis=1)
        error = (labels[:, 0] - mean) / LABEL_DEVIATION
        return (tf.square(error) * tf.exp(-log_variance) + log_variance) / 2

    return {"main": surprise}
''',
            ),
            *of_predictions("[:, :1]"),
        ),
    ),
    Change(
        name="logits from the transposed embedding",
        starter="language_model",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''class TiedLogits(keras.layers.Layer):
    """The product with the weights of an embedding: a token's logit says how alike they are."""

    def __init__(self, embedding: keras.layers.Embedding) -> None:
        super().__init__(dtype=keras.config.floatx(), name="logits")
        self.embedding = embedding

    def call(self, x: Any) -> Any:
        """float (batch, T, width) -> (batch, T, TOKENS)."""
        return keras.ops.matmul(x, keras.ops.transpose(self.embedding.embeddings))


''',
            ),
            Edit(
                "model.py",
                "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)\n",
                "    embedding = layers.Embedding(TOKENS, task.width)\n"
                "    x = embedding(tokens)  # (batch, T, width)\n",
            ),
            Edit(
                "model.py",
                'layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)',
                "TiedLogits(embedding)(x)",
            ),
        ),
    ),
    Change(
        name="digits as ordered classes, with a logit for each threshold",
        edits=(
            Edit("model.py", "layers.Dense(CLASSES,", "layers.Dense(CLASSES - 1,"),
            Edit(
                "losses.py",
                at.CROSS_ENTROPY,
                '''\

    def ordinal(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Cross-entropy of "is the label larger than 0", "than 1", ..., float (batch,)."""
        thresholds = tf.range(logits.shape[1], dtype=labels.dtype)
        larger = tf.cast(labels[:, tf.newaxis] > thresholds, logits.dtype)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(larger, logits)  # (batch, thresholds)
        return tf.reduce_sum(losses, axis=1)

    return {"main": ordinal}
''',
            ),
            after("metrics.py", "import keras\n", TF),
            Edit("metrics.py", ACCURACY, '    return {"accuracy": OrdinalAccuracy()}\n'),
            before(
                "metrics.py",
                "# TODO(6)",
                '''class OrdinalAccuracy(keras.metrics.Mean):
    """The fraction of rows that exceed as many thresholds as their label."""

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add labels (batch,), logits (batch, thresholds) and weights (batch,)."""
        guesses = tf.math.count_nonzero(logits > 0, axis=1, dtype=labels.dtype)
        super().update_state(guesses == labels, sample_weight)


''',
            ),
            Edit(
                "pictures.py",
                "probabilities = np.asarray(keras.ops.softmax(predict_in_parts(run.model, images)))",
                """\
above = np.asarray(keras.ops.sigmoid(predict_in_parts(run.model, images)))
    ends = np.ones_like(above[:, :1])
    probabilities = np.hstack([ends, above]) - np.hstack([above, 0 * ends])""",
            ),
        ),
    ),
    Change(
        name="the Dice loss of each canvas beside its cross-entropy",
        starter="segmentation",
        edits=(
            before(
                "losses.py",
                "# TODO(10)",
                '''def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the Dice coefficient of digits and background in each image, float (batch,)."""
    known = tf.cast(labels != IGNORED, logits.dtype)
    digit = tf.cast(labels != 0, logits.dtype) * known  # (batch, h, w)
    predicted = (1 - tf.nn.softmax(logits)[..., 0]) * known
    common = tf.reduce_sum(digit * predicted, axis=[1, 2])
    return 1 - (2 * common + 1) / (tf.reduce_sum(digit + predicted, axis=[1, 2]) + 1)


''',
            ),
            Edit("steps.py", at.LOSSES_IMPORT, at.LOSSES_IMPORT + ", dice"),
            after("steps.py", at.OF_PIXELS, "    per_example += dice(labels, logits)\n", "*"),
        ),
    ),
    Change(
        name="a Wasserstein critic with a gradient penalty, two steps for each of the generator",
        starter="gan",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal("
                "shape, seed, dtype=keras.config.floatx()), weights\n",
                """\
        floatx = keras.config.floatx()
        latents = tf.random.stateless_normal(shape, seed, dtype=floatx)
        share = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed + 1, dtype=floatx)
        return images, latents, share, weights
""",
            ),
            Edit(
                "losses.py",
                at.DISCRIMINATOR_LOSS,
                "        return (on_generated - on_real)[:, 0]  # (batch,)\n",
            ),
            Edit(
                "losses.py", at.GENERATOR_LOSS, "        return -on_generated[:, 0]  # (batch,)\n"
            ),
            Edit(
                "losses.py",
                "    cross_entropy = keras.losses.BinaryCrossentropy("
                'from_logits=True, reduction="none")\n',
                "",
            ),
            Edit(
                "steps.py",
                "    images, latents, weights = batch\n",
                "    images, latents, share, weights = batch\n",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                "    _, latents, weights = batch\n",
                "    _, latents, _, weights = batch\n",
            ),
            before(
                "steps.py",
                '    run.metrics["frechet"]',
                """    between = share * images + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        on_between = discriminator(between, training=True)
    slopes = tape.gradient(on_between, between)  # (batch, h, w, channels)
    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)  # (batch,)
    per_example += 10.0 * tf.square(norms - 1.0)
""",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                "TRAIN_STEPS = (discriminator_step, generator_step)  # called in this order on the same batch",
                "TRAIN_STEPS = (discriminator_step, discriminator_step, generator_step)",
            ),
        ),
    ),
    Change(
        name="a thousand classes, few of which have examples",
        edits=(
            Edit("model.py", "CLASSES = 10\n", "CLASSES = 1_000\n"),
            Edit("data.py", 'labels.astype("int64"))', 'labels.astype("int64") * 97 + 5)'),
            Edit(
                "metrics.py",
                ACCURACY,
                """\
    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "top_5": keras.metrics.SparseTopKCategoricalAccuracy(5),
    }
""",
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                '    run.metrics["top_5"].update_state(labels, predictions, weights)\n',
                "*",
            ),
        ),
    ),
    Change(
        name="two dozen patients in batches of four",
        starter="tabular_regression",
        flags=("--global-batch-size", "4"),
        edits=(
            Edit(
                "data.py",
                "    return columns, data, target\n",
                "    return columns, data[:24], target[:24]\n",
            ),
        ),
    ),
    Change(
        name="a cosine that starts again twice",
        starter="segmentation",
        edits=(
            Edit(
                "optimizer.py",
                at.SCHEDULE,
                """\
    # Cycles of 1, 2 and 4 sevenths of the run.
    schedule = keras.optimizers.schedules.CosineDecayRestarts(
        task.learning_rate, first_decay_steps=-(-steps // 7)
    )
""",
            ),
        ),
    ),
    Change(
        name="a trained backbone with BatchNormalization, frozen for good",
        preparation=BACKBONE,
        edits=(
            before("model.py", "from typing import Any\n", "from pathlib import Path\n"),
            before(
                "model.py",
                "from ..engine.batches import",
                "from ..engine.auxiliary import load_in_precision\n",
            ),
            after("model.py", "CLASSES = 10\n", 'BACKBONE = Path("backbone.keras")\n'),
            Edit(
                "model.py",
                BLOCKS,
                """\
    backbone = load_in_precision(BACKBONE)
    backbone.trainable = False
    x = backbone(images)  # (batch, features)
""",
            ),
            Edit(
                "model.py",
                'layers.Dense(128, activation="relu")',
                'layers.Dense(128, activation="relu", kernel_regularizer=l2)',
            ),
        ),
    ),
    Change(
        name="rows without a label, at weight zero",
        starter="tabular_regression",
        edits=(
            after(
                "data.py",
                at.PATIENTS_OF_TRAINING,
                """    known = np.random.default_rng(1).random(len(labels)) >= 0.3  # others weren't followed up
    labels = np.where(known[:, np.newaxis], labels, np.float32(0))
    weights = np.zeros(len(labels), np.float32)
    weights[known] = _balance(inputs["sex"][known])
""",
            ),
            Edit(
                "data.py",
                '(inputs, labels, _balance(inputs["sex"])),',
                "(inputs, labels, weights),",
            ),
            Edit(
                "model.py",
                '    inputs, labels, _ = datasets["train"]\n',
                '    inputs, labels, weights = datasets["train"]\n'
                "    labels = labels[weights > 0]  # the others are unknown\n",
            ),
        ),
    ),
    Change(
        name="a stream interleaved from four shards",
        starter="language_model",
        edits=(
            Edit(
                "data.py",
                '        "train": tuple(a[held_out:].reshape('
                "task.dates, len(FORMS), -1) for a in arrays),\n",
                '        "train": _interleaved(\n'
                "            tuple(a[held_out:].reshape(task.dates, len(FORMS), -1) for a in arrays)\n"
                "        ),\n",
            ),
            before(
                "data.py",
                "# TODO(3)",
                '''def _interleaved(arrays: tuple[np.ndarray, ...]) -> tf.data.Dataset:
    """A stream of single dates from four shards, always in the same order."""
    dates = tf.data.Dataset.from_tensor_slices(arrays)
    stream = tf.data.Dataset.range(4).interleave(
        lambda shard: dates.shard(4, shard),
        cycle_length=4,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return stream.apply(tf.data.experimental.assert_cardinality(len(arrays[0])))


''',
            ),
        ),
    ),
    Change(
        name="three quantiles for each label, which is compared with all of them",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                at.PREDICTION,
                at.PREDICTION.replace("Dense(1,", "Dense(3,").replace("(batch, 1)", "(batch, 3)"),
            ),
            Edit(
                "losses.py",
                at.STANDARDIZED_ERROR,
                '''\

    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels float (batch, 1), predicted quantiles float (batch, 3) -> float (batch,)."""
        error = (labels - predictions) / LABEL_DEVIATION  # (batch, 3)
        levels = tf.constant([0.1, 0.5, 0.9], error.dtype)
        return tf.reduce_mean(tf.maximum(levels * error, (levels - 1) * error), axis=1)

    return {"main": pinball}
''',
            ),
            *of_predictions("[:, 1:2]"),
        ),
    ),
    Change(
        name="classes weighted in the loss, and the recall of each",
        edits=(
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    per_example *= tf.gather("
                "tf.constant(CLASS_WEIGHTS, per_example.dtype), labels)\n",
                "*",
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                '    run.metrics["recall"].update_state(labels, predictions, weights)\n',
                "*",
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .losses import CLASS_WEIGHTS, compute_loss\n",
            ),
            before(
                "losses.py",
                "# TODO(5)",
                "CLASS_WEIGHTS = [0.75] * 8 + [2.0] * 2  # 8 and 9 matter most; their mean is 1\n\n\n",
            ),
            after("metrics.py", "import keras\n", TF),
            after("metrics.py", at.CONFIG_IMPORT, "from .model import CLASSES\n"),
            Edit(
                "metrics.py",
                ACCURACY,
                '    return {"accuracy": keras.metrics.SparseCategoricalAccuracy(), '
                '"recall": Recalls()}\n',
            ),
            before(
                "metrics.py",
                "# TODO(6)",
                '''class Recalls(keras.metrics.Metric):
    """The fraction of each class that is recognized, float (classes,)."""

    def __init__(self) -> None:
        super().__init__(name="recall")
        self._right = self.add_variable((CLASSES,), "zeros", name="right")
        self._all = self.add_variable((CLASSES,), "zeros", name="all")

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add labels (batch,), logits (batch, classes) and weights (batch,)."""
        weights = tf.cast(sample_weight, self.dtype)[:, tf.newaxis]
        of_class = tf.one_hot(labels, CLASSES, dtype=self.dtype) * weights
        is_right = tf.cast(tf.argmax(logits, axis=1) == labels, self.dtype)
        self._right.assign_add(tf.reduce_sum(of_class * is_right[:, tf.newaxis], axis=0))
        self._all.assign_add(tf.reduce_sum(of_class, axis=0))

    def result(self) -> tf.Tensor:
        """The recalls; 0 for classes that weren't there."""
        return tf.math.divide_no_nan(
            tf.convert_to_tensor(self._right), tf.convert_to_tensor(self._all)
        )


''',
            ),
        ),
    ),
)
