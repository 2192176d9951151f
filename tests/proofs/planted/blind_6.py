"""Faults and correct tasks of an eighth examiner: what is often wrong; blind to `check`."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before

# ---------------------------------------------------------------- segmentation

SEG_FAULTS = (
    Fault(
        name="overlapping crops split at random",
        starter="segmentation",
        kind=kinds.LEAKS,
        cause="Canvases are cut into overlapping crops first, and the crops are then divided at "
        "random, so most validation crops show pixels (and labels) that training crops have too: "
        "the validation score is too good and selects overfitted weights.",
        file="data.py",
        named=r"(?i)overlap|leak|shar(e|es|ed|ing)|same (image|canvas|pixel|picture|example|source)"
        r"|duplicate|duplication|also in (the )?(train|validation)|near(ly)?[- ](equal|identical|the same|copies)",
        edits=(
            Edit(
                "data.py",
                """    with np.load(DIGITS) as file:
        return {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
""",
                '''    with np.load(DIGITS) as file:
        digits = np.concatenate([file["train_images"], file["validation_images"]])
        classes = np.concatenate([file["train_labels"], file["validation_labels"]])
        images, labels = map(_crops, _compose(digits, classes, CANVASES["train"] // 3, 0))
        test = _compose(file["test_images"], file["test_labels"], CANVASES["test"] // 3, 1)
    order = np.random.default_rng(0).permutation(len(images))
    train, validation = np.split(order, [int(0.8 * len(order))])
    return {
        "train": (images[train], labels[train]),
        "validation": (images[validation], labels[validation]),
        "test": tuple(map(_crops, test)),
    }


def _crops(canvases: np.ndarray) -> np.ndarray:
    """Four crops of each canvas, (n, 32, 32, ...) -> (4 n, 24, 24, ...)."""
    places = [(top, left) for top in (0, CANVAS - CROP) for left in (0, CANVAS - CROP)]
    return np.concatenate([canvases[:, t : t + CROP, l : l + CROP] for t, l in places])
''',
            ),
            after(
                "data.py",
                "TRIES = 6  # digits that are tried on each canvas\n",
                "CROP = 24  # pixels along a side of what the model sees\n",
            ),
            Edit(
                "data.py",
                "rows, center = images.shape[0], (CANVAS - 1) / 2",
                "rows, center = images.shape[0], (CROP - 1) / 2",
            ),
        ),
    ),
    Fault(
        name="image and mask warped with different seeds",
        starter="segmentation",
        kind=kinds.AUGMENTATION,
        cause="The labels are warped with another seed than their image, so the masks of training "
        "lie elsewhere than the digits.",
        file="data.py",
        named=r"(?i)(label|mask|target)s?\b.*(not|no longer|differ|other|another|apart|elsewhere|"
        r"without|move|warp|transform|align|follow|seed)|augment.*(label|mask)|misalign",
        edits=(
            Edit(
                "data.py",
                """        images, labels, weights = batch
        rows, center = images.shape[0], (CANVAS - 1) / 2
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
                """        images, labels, weights = batch
        seeds = tf.random.split(seed, 2)  # a seed is used only once
        images = warped(images, seeds[0], "bilinear")
        # "nearest", since a mean of two labels is no label.
        labels = tf.cast(labels[..., tf.newaxis], tf.float32)
        labels = warped(labels, seeds[1], "nearest")
        return images, tf.cast(labels[..., 0], tf.int32), weights

    def warped(pixels: tf.Tensor, seed: tf.Tensor, interpolation: str) -> tf.Tensor:
        rows, center = pixels.shape[0], (CANVAS - 1) / 2
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)
        offset = center - center * tf.reduce_sum(warp, axis=2, keepdims=True)  # fixes the center
        # A pixel p of the result comes from warp @ p + offset.
        transforms = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
        transforms = tf.pad(transforms, [[0, 0], [0, 2]])  # (batch, 8)
        return keras.ops.image.affine_transform(pixels, transforms, interpolation)
""",
            ),
        ),
    ),
    Fault(
        name="dice over each replicas batch",
        starter="segmentation",
        kind=kinds.LOSS_SCALING,
        cause="The Dice loss is a ratio of sums over the examples of one replica; the mean of the "
        "replicas' ratios isn't the ratio of the batch, so N replicas (or micro-batches) train "
        "otherwise than one; padding of weight 0 counts too.",
        file="losses.py",
        named=r"(?i)ratio|dice|replica|micro-?batch|accumulat|padding|padded|EXAMPLES_INTERACT|"
        r"weights? (of )?(0|zero)|depends on (the )?other|global_count",
        edits=(
            Edit(
                "losses.py", "from .data import IGNORED\n", "from .data import CLASSES, IGNORED\n"
            ),
            before(
                "losses.py",
                "# TODO(10): the number",
                '''def dice_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the soft Dice coefficient, averaged over the digits' classes, a float scalar."""
    counted = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    truth = tf.one_hot(tf.where(labels == IGNORED, 0, labels), CLASSES, dtype=logits.dtype)
    truth, found = truth * counted, tf.nn.softmax(logits) * counted
    overlap = tf.reduce_sum(truth * found, axis=[0, 1, 2])  # (classes,)
    total = tf.reduce_sum(truth, axis=[0, 1, 2]) + tf.reduce_sum(found, axis=[0, 1, 2])
    return 1 - tf.reduce_mean((2 * overlap[1:] + 1) / (total[1:] + 1))


''',
            ),
            Edit(
                "steps.py",
                "from .losses import average_over_pixels, compute_loss\n",
                "from .losses import average_over_pixels, compute_loss, dice_loss\n",
            ),
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                "    dice = dice_loss(labels, logits) / replica.num_replicas\n"
                '    return {"main": compute_loss(per_example, weights, run.model, replica) + dice}\n',
                where="*",
            ),
        ),
    ),
    Fault(
        name="batch norm momentum of long runs",
        starter="segmentation",
        kind=kinds.MODEL,
        cause="BatchNormalization's momentum 0.999 (TF-slim's default) needs thousands of steps; "
        "in this run of some 300 the moving averages stay near their initial values, so "
        "evaluation is far from what training sees.",
        file="model.py",
        named=r"(?i)moving (average|mean|variance|statistic)|momentum|statistics|"
        r"BatchNorm|batch[_ ]norm",
        edits=(
            Edit(
                "model.py",
                "keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)",
                "keras.layers.BatchNormalization(momentum=0.999, epsilon=0.1)(x)",
            ),
        ),
    ),
    Fault(
        name="cross entropy takes logits for probabilities",
        starter="segmentation",
        kind=kinds.LOSS_SCALING,
        cause="from_logits=True is missing, so the loss clips logits to [0, 1] as if they were "
        "probabilities: most gradients are 0 and it isn't the cross-entropy.",
        file="losses.py",
        named=r"(?i)from_logits|logits|probability|probabilities|softmax|clip|zero gradient|no gradient|sum to (1|one)",
        edits=(
            Edit(
                "losses.py",
                """    cross_entropy = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=IGNORED, reduction="none"
    )
""",
                """    cross_entropy = keras.losses.SparseCategoricalCrossentropy(
        ignore_class=IGNORED, reduction="none"
    )
""",
            ),
        ),
    ),
    Fault(
        name="decay per epoch made every step",
        starter="segmentation",
        kind=kinds.OPTIMIZER,
        cause="The decay of 0.9 meant for each epoch is made in each step (decay_steps=1): after "
        "some 60 steps the learning rate is nearly 0, and the rest of the run trains nothing.",
        file="optimizer.py",
        named=r"(?i)learning[ _-]?rate|schedule|decay",
        edits=(
            Edit(
                "optimizer.py",
                at.SCHEDULE,
                """    # A tenth less after each epoch.
    schedule = keras.optimizers.schedules.ExponentialDecay(
        task.learning_rate, decay_steps=1, decay_rate=0.9
    )
""",
            ),
        ),
    ),
    Fault(
        name="train step calls model without training",
        starter="segmentation",
        kind=kinds.MODEL,
        cause="The train step calls the model without training=True, so batch normalization uses "
        "its moving averages, which never move: the model trains unnormalized.",
        file="steps.py",
        named=r"(?i)training\s*=\s*True|training mode|moving (average|mean|variance|statistic)|"
        r"inference mode|BatchNorm|batch[_ ]norm|never (moves?|changes?|updated)",
        edits=(
            Edit("steps.py", "run.model(images, training=True)", "run.model(images)", "train_step"),
        ),
    ),
)

# ---------------------------------------------------------------- image classification

IMG_FAULTS = (
    Fault(
        name="split by take and skip after shuffle",
        kind=kinds.STREAMS,
        cause="take and skip of a dataset that is shuffled anew in each iteration: in each epoch "
        "other examples are the validation data, so training sees them too.",
        file="data.py",
        named=r"(?i)reshuffl|shuffl|take|skip|leak|same examples? in|each (epoch|time|iteration|"
        r"pass)|other (order|examples)|validation.*(also|too).*train|train.*(also|too).*validation|"
        r"not (the )?same (each|every|twice)|differs? (between|from)|order",
        edits=(
            Edit(
                "data.py",
                at.LOADED + at.ALL_ARRAYS,
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    arrays = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    # Another division than that of the file: a fifth of what isn't test data validates.
    both = zip(arrays["train"], arrays["validation"], strict=True)
    examples = tf.data.Dataset.from_tensor_slices(tuple(map(np.concatenate, both)))
    size = len(examples)
    examples = examples.shuffle(size, seed=0)
    return {
        "train": examples.skip(size // 5),
        "validation": examples.take(size // 5),
        "test": arrays["test"],
    }
""",
            ),
        ),
    ),
    Fault(
        name="prediction reader without standardization",
        kind=kinds.EVALUATION,
        cause="Training images are standardized in create_datasets, and the reader of picture "
        "files only divides by 255: predictions of files are those of other inputs.",
        file="predictions.py",
        named=r"(?i)read_image|reader|READERS|\.png|picture file|predict(ion)?s? .*(file|scal|range)"
        r"|file.*(scal|range|normal|standard|preprocess)",
        edits=(
            after(
                "data.py",
                "VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST\n",
                "MEAN, DEVIATION = 0.305, 0.376  # of a pixel of the training digits\n",
            ),
            Edit(
                "data.py",
                at.ALL_ARRAYS,
                """    return {
        split: (
            (images.astype("float32")[..., np.newaxis] - MEAN) / DEVIATION,
            labels.astype("int64"),
        )
        for split, (images, labels) in splits.items()
    }
""",
            ),
            Edit(
                "data.py",
                "return keras.ops.image.affine_transform(images, transforms), labels, weights",
                "blank = -MEAN / DEVIATION  # no ink\n"
                "        images = keras.ops.image.affine_transform(images, transforms, "
                "fill_value=blank)\n"
                "        return images, labels, weights",
            ),
        ),
    ),
    Fault(
        name="keras random layer in the pipeline",
        kind=kinds.AUGMENTATION,
        cause="A random layer of Keras with a seed generator of its own ignores the seed of the "
        "step: a resumed run starts its random numbers again, and the batches of a step are not "
        "the same wherever a run starts.",
        file="data.py",
        named=r"(?i)seed|random|resum|reproduc|not the same|stateless|step addressed|addresses?d|differs",
        edits=(
            Edit(
                "data.py",
                """    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """    side = 8 if task.dataset == "digits" else 28
    share = task.shift / side
    shift = keras.layers.RandomTranslation(share, share, fill_mode="constant", seed=0)

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        return shift(images, training=True), labels, weights
""",
            ),
        ),
    ),
    Fault(
        name="monitors a loss as if larger were better",
        kind=kinds.EVALUATION,
        cause="The monitor was changed from accuracy to the loss, and larger_is_better is still "
        "true: the weights with the worst validation loss are tested and exported.",
        file="config.py",
        named=r"(?i)larger_is_better|larger-is-better|monitor|worst|best weights",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_accuracy"',
                'monitor: str = "validation_loss"',
            ),
        ),
    ),
    Fault(
        name="metric resets two of three counts",
        kind=kinds.METRICS,
        cause="The metric's reset_state forgets one of its variables, so predictions of earlier "
        "epochs count in each later one and F1 falls with every validation.",
        file="metrics.py",
        named=r"(?i)reset|earlier|previous|carr(y|ies) over|accumulat|left over|starts? (with|from)|"
        r"twice",
        edits=(
            Edit(
                "metrics.py",
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}\n',
                '''return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "macro_f1": MacroF1(CLASSES),
    }


class MacroF1(keras.metrics.Metric):
    """The F1 score of each class, averaged over the classes."""

    def __init__(self, classes: int, name: str = "macro_f1", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self.classes = classes
        self.hits = self.add_weight(shape=(classes,), initializer="zeros", name="hits")
        self.labeled = self.add_weight(shape=(classes,), initializer="zeros", name="labeled")
        self.predicted = self.add_weight(shape=(classes,), initializer="zeros", name="predicted")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Labels (batch,), logits (batch, classes), weights (batch,)."""
        labels = keras.ops.one_hot(y_true, self.classes, dtype=self.dtype)
        found = keras.ops.argmax(y_pred, axis=-1)
        found = keras.ops.one_hot(found, self.classes, dtype=self.dtype)
        weights = 1.0 if sample_weight is None else sample_weight
        weights = keras.ops.reshape(keras.ops.cast(weights, self.dtype), (-1, 1))
        self.hits.assign_add(keras.ops.sum(weights * labels * found, axis=0))
        self.labeled.assign_add(keras.ops.sum(weights * labels, axis=0))
        self.predicted.assign_add(keras.ops.sum(weights * found, axis=0))

    def result(self) -> Any:
        """The mean F1."""
        both = self.labeled + self.predicted
        return keras.ops.mean(2 * self.hits / keras.ops.maximum(both, 1e-7))

    def reset_state(self) -> None:
        """Start again."""
        self.hits.assign(keras.ops.zeros_like(self.hits))
        self.labeled.assign(keras.ops.zeros_like(self.labeled))
''',
            ),
            Edit(
                "metrics.py",
                "import keras\n\nfrom .config import TaskConfig\n",
                "from typing import Any\n\nimport keras\n\nfrom .config import TaskConfig\n"
                "from .model import CLASSES\n",
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                '    run.metrics["macro_f1"].update_state(labels, predictions, weights)\n',
                "*",
            ),
            Edit(
                "config.py",
                'monitor: str = "validation_accuracy"',
                'monitor: str = "validation_macro_f1"',
            ),
        ),
    ),
    Fault(
        name="images standardized by the whole batch",
        kind=kinds.MODEL,
        cause="The mean and deviation meant for each image are taken over all axes, the batch too: "
        "an example's prediction depends on which others are in its batch, and on padding, at "
        "test time as well.",
        file="model.py",
        named=r"(?i)other (examples|rows|images)|others? (of|in) (its|the) batch|whole batch|"
        r"across (the )?(batch|examples)|depends? on|batch statistics|each example by itself|alone|"
        r"padding|rows of weight|batch (axis|dimension)",
        edits=(
            Edit(
                "model.py",
                "    x = images\n",
                """    # Each image gets mean 0 and deviation 1, whatever its contrast.
    ops = keras.ops
    x = (images - ops.mean(images)) / (ops.std(images) + 1e-6)
""",
            ),
        ),
    ),
    Fault(
        name="position embedding in a tf variable",
        kind=kinds.MODEL,
        cause="The embedding is a tf.Variable, which Keras 3 doesn't track: it is neither trained "
        "nor part of checkpoints and exported models.",
        file="model.py",
        named=r"(?i)tf\.Variable|not tracked|untracked|add_weight|isn't (trained|saved)|not (trained|"
        r"saved|restored|a variable|in (the )?(model|checkpoint))|never trained",
        edits=(
            after(
                "model.py",
                "CLASSES = 10\n",
                '''

class PositionEmbedding(keras.layers.Layer):
    """Adds a learned vector for each place of a grid."""

    def build(self, input_shape: Any) -> None:
        """Make the vectors, for inputs (batch, h, w, channels)."""
        initial = tf.random.normal(input_shape[1:], stddev=0.3)
        self.table = tf.Variable(initial, trainable=True, name="table")

    def call(self, inputs: Any) -> Any:
        """The sum."""
        return inputs + tf.cast(self.table, inputs.dtype)
''',
            ),
            after("model.py", "import numpy as np\n", "import tensorflow as tf\n"),
            before("model.py", "    x = layers.Flatten()(x)\n", "    x = PositionEmbedding()(x)\n"),
        ),
    ),
    Fault(
        name="gradient noise drawn on each replica",
        kind=kinds.OPTIMIZER,
        cause="The noise of the gradients comes from tf.random.normal, a state of the process: each "
        "replica adds other noise to the summed gradients, so the copies of the weights drift "
        "apart, and a resumed run draws other numbers.",
        file="optimizer.py",
        named=r"(?i)process_gradients|noise|tf\.random\.normal|stateless|"
        r"(weights?|cop(y|ies)|variables?|gradients?).*(apart|replica|differ)|"
        r"replicas?.*(apart|differ|other)|random",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                """    # Neelakantan et al. (2015), Adding Gradient Noise Improves Learning.
    return [g + tf.random.normal(g.shape, stddev=NOISE, dtype=g.dtype) for g in gradients]
""",
            ),
            after("optimizer.py", at.CONFIG_IMPORT, "\nNOISE = 0.003  # its standard deviation\n"),
        ),
    ),
    Fault(
        name="loss ramp counted in python",
        kind=kinds.LOSS_SCALING,
        cause="The weight of the consistency loss grows with a Python counter, which only moves "
        "when the step is traced: it stays at its first value for the whole run, and differs "
        "with the number of replicas and after a resume.",
        file="steps.py",
        named=r"(?i)python|trac(e|ed|ing)|replica\.step|counter|global (variable|state)|"
        r"never (grows|changes)|number of (calls|traces)",
        edits=(
            after(
                "steps.py",
                """    predictions = run.model(images, training=True)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
""",
                """    # R-Drop (Liang et al., 2021): two passes with other dropout must agree, more and more so.
    global calls
    calls += 1
    again = run.model(images, training=True)
    per_example += min(1.0, calls / RAMP_STEPS) * disagreement(predictions, again)
""",
                "train_step",
            ),
            before(
                "steps.py",
                "# TODO(11): one train step;",
                '''RAMP_STEPS = 200  # until the consistency loss has its full weight
calls = 0


def disagreement(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """The symmetric KL divergence of two predictions, logits (batch, classes) -> (batch,)."""
    p, q = tf.nn.log_softmax(first), tf.nn.log_softmax(second)
    return 0.5 * tf.reduce_sum((tf.exp(p) - tf.exp(q)) * (p - q), axis=-1)


''',
            ),
        ),
    ),
)

# ---------------------------------------------------------------- tabular regression

TAB_FAULTS = (
    Fault(
        name="custom loss broadcasts labels and predictions",
        starter="tabular_regression",
        kind=kinds.LOSS_SCALING,
        cause="Labels (batch, 1) minus predictions (batch,) is (batch, batch): each label is "
        "compared with every prediction, so the model learns to predict the mean.",
        file="losses.py",
        named=r"(?i)broadcast|shape|\(batch, batch\)|other (examples|rows|predictions)|others? of|"
        r"depends on|EXAMPLES_INTERACT|every prediction",
        edits=(
            Edit(
                "losses.py",
                at.STANDARDIZED_ERROR,
                '''
    def huber(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels and predictions in units of the data -> float (batch,), robust to outliers.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        predictions = tf.squeeze(predictions, axis=-1)
        error = (labels - predictions) / LABEL_DEVIATION
        size = tf.abs(error)
        loss = tf.where(size < 1, 0.5 * tf.square(error), size - 0.5)
        return tf.reduce_mean(loss, axis=-1)

    return {"main": huber}
''',
            ),
            Edit("losses.py", "import keras\nimport tensorflow", "import tensorflow"),
            Edit("losses.py", "model: keras.Model, replica", "model: Any, replica"),
        ),
    ),
    Fault(
        name="code for missing values taken as a number",
        starter="tabular_regression",
        kind=kinds.INPUTS,
        cause="Missing values are coded -999 and nothing replaces the code: it goes into the mean "
        "and variance of its column and into the model as a measured value.",
        file="data.py",
        named=r"(?i)-999|sentinel|missing|placeholder|code for|outlier|same value|far (from|outside)"
        r"|extreme|implausibl|deviations? (from|below|away)",
        edits=(
            Edit(
                "data.py",
                "        data[rows, columns.index(column)] = np.nan\n",
                "        data[rows, columns.index(column)] = NOT_MEASURED\n",
            ),
            before(
                "data.py",
                "MASK_SEED, SPLIT_SEED = 0, 0\n",
                "NOT_MEASURED = -999  # what the clinic's files have there\n",
            ),
        ),
    ),
    Fault(
        name="each split standardized by itself",
        starter="tabular_regression",
        kind=kinds.INPUTS,
        cause="Each split is standardized with its own mean and deviation, so the same patient "
        "has other inputs in training, validation and test, and predictions of new rows use none.",
        file="data.py",
        named=r"(?i)own (mean|statistic|deviation|scale)|each split|by itself|mean 0|mean (of )?"
        r"(exactly )?(0|zero)|standardi[sz]|normali[sz]|same (value|row|patient)|statistics of",
        edits=(
            after(
                "data.py",
                at.NUMERIC,
                "        # Columns of very different sizes: mean 0 and deviation 1.\n"
                "        numeric = (numeric - np.nanmean(numeric, axis=0)) / "
                "np.nanstd(numeric, axis=0)\n",
            ),
        ),
    ),
    Fault(
        name="weighted mean on each replica",
        starter="tabular_regression",
        kind=kinds.WEIGHTS,
        cause="Each replica divides by the sum of its own weights, and the means are averaged: "
        "replicas with small sums of weights, or with padding, count too much, and N replicas "
        "don't train like one.",
        file="losses.py",
        named=r"(?i)global_count|own (weights?|sum|part|examples|count)|replica|sum of (the )?weights|"
        r"reduce_sum\(weights\)|compute_average_loss|micro-?batch",
        edits=(
            Edit(
                "losses.py",
                """    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss""",
                """    # The weighted mean; tf.distribute adds up the losses of the replicas.
    weights = tf.cast(weights, per_example.dtype)
    mean = tf.math.divide_no_nan(tf.reduce_sum(weights * per_example), tf.reduce_sum(weights))
    loss = mean / replica.num_replicas
    return loss""",
            ),
        ),
    ),
    Fault(
        name="rmse averaged over batches",
        starter="tabular_regression",
        kind=kinds.METRICS,
        cause="The RMSE of each replica's batch is averaged by a Mean metric: the mean of square "
        "roots isn't the root of the mean, and short batches count as much as full ones, so the "
        "number depends on the batch size and on the number of replicas.",
        file="steps.py",
        named=r"(?i)rmse|\"?rmse\"?.*(batch|replica|examples?)|batch size|mean of (batch|ratios|roots)"
        r"|per batch|each batch|RootMeanSquaredError",
        edits=(
            Edit(
                "metrics.py",
                'return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}',
                'return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, '
                '"rmse": keras.metrics.Mean()}',
            ),
            after(
                "steps.py",
                at.UPDATE_R2,
                '    run.metrics["rmse"].update_state(rmse(labels, predictions, weights))\n',
                "*",
            ),
            before(
                "steps.py",
                "# TODO(11): one train step;",
                '''def rmse(labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The root of the mean squared error, in units of the data; padding has weight 0."""
    errors = tf.square(labels - predictions)[:, 0]
    return tf.sqrt(tf.math.divide_no_nan(tf.reduce_sum(weights * errors), tf.reduce_sum(weights)))


''',
            ),
        ),
    ),
    Fault(
        name="plateau callback forgets at resume",
        starter="tabular_regression",
        kind=kinds.OPTIMIZER,
        cause="The best loss and the count of validations without progress are in a closure, which "
        "no checkpoint has: a resumed run starts to count again, and halves the learning rate at "
        "other times than a run without interruption.",
        file="callbacks.py",
        named=r"(?i)get_state|set_state|callback.*(state|resum|checkpoint|forget|lost|saved)|"
        r"(state|resum|checkpoint).*callback|closure|nonlocal|resumed",
        flags=(),
        edits=(
            Edit(
                "optimizer.py",
                at.ADAMW,
                """    # Constant; a callback halves it.
    return keras.optimizers.AdamW(task.learning_rate, weight_decay=task.weight_decay)
""",
            ),
            Edit(
                "callbacks.py",
                '''    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
''',
                '''    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    best, waited = math.inf, 0

    def reduce_on_plateau(event: Event) -> None:
        """Halve the learning rate after PATIENCE validations without a smaller loss."""
        nonlocal best, waited
        loss = event.history[-1]["validation_loss"]
        best, waited = min(best, loss), 0 if loss < best else waited + 1
        if waited == PATIENCE:
            waited = 0
            optimizer = event.run.optimizers["main"]
            optimizer.learning_rate = 0.5 * event.learning_rates["main"]

    return [every_validation(reduce_on_plateau)]
''',
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                "import math\n\nfrom ..engine.callbacks import Callback, Event, every_validation\n"
                "from .config import TaskConfig\n\nPATIENCE = 2\n",
            ),
        ),
    ),
    Fault(
        name="table sorted without its target",
        starter="tabular_regression",
        kind=kinds.LABELS,
        cause="The rows are sorted by age so that every fold has all ages, and the target isn't: "
        "each patient gets the label of another one.",
        file="data.py",
        named=r"(?i)label|target|align|pair|learns? nothing|no better than|chance|constant|"
        r"predict.*mean|unrelated|belong",
        edits=(
            after(
                "data.py",
                """        data[rows, columns.index(column)] = np.nan
""",
                "    # By age, so that a fold, which is every fifth row, has patients of all ages.\n"
                '    data = data[np.argsort(data[:, columns.index("age")], kind="stable")]\n',
            ),
            Edit(
                "data.py",
                "    test, rest = order[is_test], order[~is_test]\n",
                "    rows = np.arange(len(data))\n    test, rest = rows[is_test], rows[~is_test]\n",
            ),
            Edit(
                "data.py",
                "    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))\n",
                "",
            ),
        ),
    ),
)

FAULTS: tuple[Fault, ...] = SEG_FAULTS + IMG_FAULTS + TAB_FAULTS

# ---------------------------------------------------------------- correct tasks


TASKS: tuple[Change, ...] = (
    Change(
        name="cosine classifier with smoothed labels and sgd",
        edits=(
            after(
                "model.py",
                "CLASSES = 10\n",
                '''

@keras.saving.register_keras_serializable("task")
class CosineLogits(keras.layers.Layer):
    """Scaled cosines between features and a learned prototype of each class."""

    def __init__(self, classes: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.classes = classes

    def build(self, input_shape: Any) -> None:
        """Make the prototypes and the logarithm of the scale."""
        shape = (input_shape[-1], self.classes)
        self.prototypes = self.add_weight(
            shape=shape, initializer="glorot_uniform", name="prototypes"
        )
        start = keras.initializers.Constant(2.3)
        self.log_scale = self.add_weight(shape=(), initializer=start, name="log_scale")

    def call(self, inputs: Any) -> Any:
        """Features (batch, n) -> logits (batch, classes)."""
        ops = keras.ops
        features = ops.normalize(inputs, axis=-1)
        prototypes = ops.normalize(ops.cast(self.prototypes, inputs.dtype), axis=0)
        return ops.exp(self.log_scale) * ops.matmul(features, prototypes)

    def get_config(self) -> dict[str, Any]:
        """What its constructor needs."""
        return super().get_config() | {"classes": self.classes}
''',
            ),
            Edit(
                "model.py",
                'layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)',
                'CosineLogits(CLASSES, dtype=keras.config.floatx(), name="logits")(x)',
            ),
            Edit(
                "model.py",
                'x = layers.Dense(128, activation="relu")(x)',
                'x = layers.Dense(128, activation="tanh")(x)',
            ),
            Edit(
                "losses.py",
                at.CROSS_ENTROPY,
                """    soft = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.1, reduction="none"
    )

    def smoothed(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return soft(tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype), logits)

    return {"main": smoothed}
""",
            ),
            Edit("losses.py", "-> dict[str, keras.losses.Loss]:", "-> dict[str, Any]:"),
            Edit(
                "optimizer.py",
                at.ADAM,
                """    boundaries = [max(1, steps // 2), max(2, steps * 3 // 4)]
    rates = [task.learning_rate, task.learning_rate / 5, task.learning_rate / 25]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, rates)
    return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True, weight_decay=1e-4)
""",
            ),
            Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 5e-2"),
        ),
    ),
    Change(
        name="rows of pixels read by recurrent layers",
        edits=(
            Edit(
                "model.py",
                "",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1), read row by row from top and bottom -> logits float32.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    height, width, _ = map(int, adapted["shape"])
    images = keras.Input((height, width, 1), name="images")
    rows = layers.Reshape((height, width))(images)
    l2 = keras.regularizers.L2(task.l2)
    x = layers.Dense(48, activation="swish", kernel_regularizer=l2)(rows)  # of each row
    x = layers.Bidirectional(layers.GRU(48, return_sequences=True))(x)
    x = layers.LayerNormalization()(x)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Bidirectional(layers.GRU(48, return_sequences=True), merge_mode="sum")(x)
    # Attention over the rows: a score for each, and the mean that it weighs.
    scores = layers.Softmax(axis=1)(layers.Dense(1)(x))  # (batch, h, 1)
    x = layers.Dot(axes=1)([scores, x])  # (batch, 1, 48)
    x = layers.Dropout(task.dropout)(layers.Flatten()(x))
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
''',
                "create_model",
            ),
            Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 5e-3"),
        ),
    ),
    Change(
        name="vision transformer with stochastic depth",
        edits=(
            Edit(
                "model.py",
                "",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes).

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    images = keras.Input(adapted["shape"], name="images")
    size = 2 if adapted["shape"][0] < 16 else 4  # of a patch
    l2 = keras.regularizers.L2(task.l2)
    x = layers.Conv2D(WIDTH, size, strides=size, kernel_regularizer=l2)(images)
    x = layers.Reshape((-1, WIDTH))(x)  # (batch, patches, width)
    x = Positions()(x)
    for block in range(BLOCKS):
        dropped = 0.2 * (block + 1) / BLOCKS
        y = layers.LayerNormalization()(x)
        y = layers.MultiHeadAttention(4, WIDTH // 4, dropout=0.1)(y, y)
        x = layers.Add()([x, StochasticDepth(dropped, 2 * block)(y)])
        y = layers.LayerNormalization()(x)
        y = layers.Dense(2 * WIDTH, activation="gelu")(y)
        y = layers.Dropout(task.dropout)(layers.Dense(WIDTH)(y))
        x = layers.Add()([x, StochasticDepth(dropped, 2 * block + 1)(y)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
''',
                "create_model",
            ),
            after(
                "model.py",
                "CLASSES = 10\n",
                '''WIDTH, BLOCKS = 48, 3


@keras.saving.register_keras_serializable("task")
class Positions(keras.layers.Layer):
    """Adds a learned vector for each place of a sequence."""

    def build(self, input_shape: Any) -> None:
        """Make the vectors."""
        self.table = self.add_weight(
            shape=tuple(input_shape[1:]),
            initializer=keras.initializers.RandomNormal(stddev=0.02),
            name="table",
        )

    def call(self, inputs: Any) -> Any:
        """(batch, places, width) -> the same."""
        return inputs + keras.ops.cast(self.table, inputs.dtype)


@keras.saving.register_keras_serializable("task")
class StochasticDepth(keras.layers.Layer):
    """Leaves a branch out in training, for each example by itself (Huang et al., 2016)."""

    def __init__(self, rate: float, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate, self.seed = rate, seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """(batch, places, width) -> the same."""
        if not training or not self.rate:
            return inputs
        shape = (keras.ops.shape(inputs)[0], 1, 1)
        drawn = keras.random.uniform(shape, seed=self.seed_generator, dtype=inputs.dtype)
        kept = keras.ops.cast(drawn >= self.rate, inputs.dtype)
        return inputs * kept / (1 - self.rate)

    def get_config(self) -> dict[str, Any]:
        """What its constructor needs."""
        return super().get_config() | {"rate": self.rate, "seed": self.seed}
''',
            ),
            Edit(
                "optimizer.py",
                at.ADAM,
                """    warmup = max(1, steps // 10)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        decay_steps=max(1, steps - warmup),
        warmup_target=task.learning_rate,
        warmup_steps=warmup,
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.05)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta", "table"])
    return optimizer
""",
            ),
        ),
    ),
    Change(
        name="mixup that makes soft labels",
        edits=(
            Edit(
                "data.py",
                "    if not task.shift:\n        return None\n\n    def augment",
                "    def augment",
            ),
            Edit(
                "data.py",
                at.SHIFTS,
                """        seed, second = tf.unstack(tf.random.split(seed, 2))
        rows = images.shape[0]
        shifts = tf.random.stateless_uniform((rows, 2), seed, -task.shift, task.shift)
""",
            ),
            Edit(
                "data.py",
                at.SHIFTED,
                """        images = keras.ops.image.affine_transform(images, transforms)
        # Mixup (Zhang et al., 2018): each example with the one at the other end of the batch, and
        # mostly itself. Padding has no partner and is none, and partners have the same weight.
        share = tf.random.stateless_uniform((rows,), second, 0.6, 1.0, images.dtype)
        is_mixed = (weights > 0) & (weights == weights[::-1])
        share = tf.where(is_mixed, share, tf.ones_like(share))
        soft = tf.one_hot(labels, CLASSES, dtype=images.dtype)
        column, square = share[:, tf.newaxis], share[:, tf.newaxis, tf.newaxis, tf.newaxis]
        images = square * images + (1 - square) * images[::-1]
        return images, column * soft + (1 - column) * soft[::-1], weights
""",
            ),
            before("data.py", "VALIDATION_IMAGES = 5_000", "CLASSES = 10\n"),
            Edit(
                "losses.py",
                at.CROSS_ENTROPY,
                """    return {
        "main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),
        "soft": keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none"),
    }
""",
            ),
            Edit(
                "steps.py",
                at.PER_EXAMPLE + at.UPDATE_ACCURACY,
                """    per_example = run.losses["soft"](labels, predictions)  # (batch,)
    likeliest = tf.argmax(labels, axis=-1)  # labels are soft, (batch, classes)
    run.metrics["accuracy"].update_state(likeliest, predictions, weights)
""",
                "train_step",
            ),
        ),
    ),
    Change(
        name="loss divided by the pixels of the batch",
        starter="segmentation",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def average_over_pixels(
    per_pixel: tf.Tensor, labels: tf.Tensor, foreground_weight: float
) -> tf.Tensor:
    """The sum over an example's pixels, float (batch,): `count` counts pixels, not examples."""
    weighted = tf.where(labels == 0, per_pixel, foreground_weight * per_pixel)  # (batch, h, w)
    weighted = tf.where(labels == IGNORED, tf.zeros_like(weighted), weighted)
    return tf.reduce_sum(weighted, axis=[1, 2])
''',
                "average_over_pixels",
            ),
            Edit(
                "losses.py",
                "",
                '''def count(batch: Any) -> tf.Tensor:
    """How many pixels of `batch` count, an int32 scalar: neither ignored nor of padding."""
    _, labels, weights = batch
    counted = (labels != IGNORED) & (weights != 0)[:, tf.newaxis, tf.newaxis]
    return tf.math.count_nonzero(counted, dtype=tf.int32)
''',
                "count",
            ),
        ),
    ),
    Change(
        name="cross entropy and dice of each example",
        starter="segmentation",
        edits=(
            Edit(
                "losses.py", "from .data import IGNORED\n", "from .data import CLASSES, IGNORED\n"
            ),
            before(
                "losses.py",
                "# TODO(10): the number",
                '''def dice_of_examples(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the soft Dice coefficient of each example, float (batch,), over the classes it shows.

    Labels: int (batch, h, w); logits: float (batch, h, w, classes). Ignored pixels don't count.
    """
    counted = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    truth = tf.one_hot(labels, CLASSES, dtype=logits.dtype)  # 0 for IGNORED
    found = tf.nn.softmax(logits) * counted
    overlap = tf.reduce_sum(truth * found, axis=[1, 2])  # (batch, classes)
    total = tf.reduce_sum(truth + found, axis=[1, 2])
    is_shown = tf.cast(tf.reduce_any(truth > 0, axis=[1, 2]), logits.dtype)
    dice = tf.reduce_sum(is_shown * 2 * overlap / (total + 1e-3), axis=1)
    return 1 - tf.math.divide_no_nan(dice, tf.reduce_sum(is_shown, axis=1))


''',
            ),
            Edit(
                "steps.py",
                "from .losses import average_over_pixels, compute_loss\n",
                "from .losses import average_over_pixels, compute_loss, dice_of_examples\n",
            ),
            before(
                "steps.py",
                '    run.metrics["mean_iou"].update_state',
                "    per_example += 0.5 * dice_of_examples(labels, logits)\n",
                "*",
            ),
        ),
    ),
    Change(
        name="one against all focal loss of a dilated network",
        starter="segmentation",
        edits=(
            Edit(
                "model.py",
                "",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> a logit for each class by itself, float32.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, filters = keras.layers, 2 * task.width
    images = keras.Input(adapted["shape"], name="images")
    x = layers.Conv2D(filters, 3, strides=2, padding="same")(images)  # (batch, h/2, w/2, filters)
    for dilation in (1, 2, 4, 2, 1):
        y = layers.GroupNormalization(4, epsilon=0.1)(x)
        y = layers.Activation("swish")(y)
        y = layers.SeparableConv2D(filters, 3, padding="same", dilation_rate=dilation)(y)
        x = layers.Add()([x, y])
    x = layers.Conv2DTranspose(filters, 4, strides=2, padding="same", activation="swish")(x)
    rare = keras.initializers.Constant(-2.0)  # at first, every class is unlikely (Lin et al., 2017)
    logits = layers.Conv2D(
        CLASSES, 3, padding="same", bias_initializer=rare, dtype=keras.config.floatx()
    )(x)
    return keras.Model(images, logits)
''',
                "create_model",
            ),
            Edit("model.py", "", "", "_convolve_twice"),
            Edit(
                "model.py",
                "LEVELS = 3  # below full resolution; at the lowest, a pixel sees the whole canvas\n",
                "",
            ),
            Edit(
                "losses.py",
                """    cross_entropy = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=IGNORED, reduction="none"
    )
    return {"main": cross_entropy}
""",
                '''
    def focal(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels (batch, h, w), logits (batch, h, w, classes) -> (batch, h, w); 0 if ignored."""
        truth = tf.one_hot(labels, CLASSES, dtype=logits.dtype)
        cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(truth, logits)
        wrong = tf.sigmoid(tf.where(truth > 0, -logits, logits))  # 1 - p of what is true
        per_pixel = tf.reduce_sum(tf.square(wrong) * cross_entropy, axis=-1)
        return tf.where(labels == IGNORED, tf.zeros_like(per_pixel), per_pixel)

    return {"main": focal}
''',
            ),
            Edit("losses.py", "-> dict[str, keras.losses.Loss]:", "-> dict[str, Any]:"),
            Edit(
                "losses.py", "from .data import IGNORED\n", "from .data import CLASSES, IGNORED\n"
            ),
        ),
    ),
    Change(
        name="three quantiles that never cross",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                at.PREDICTION + at.UNSCALED,
                """    x = layers.Dense(3, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 3)
    # The median, and how far the other two are from it.
    median, below, above = x[:, :1], ops.softplus(x[:, 1:2]), ops.softplus(x[:, 2:])
    x = layers.Concatenate(dtype=floatx)([median - below, median, median + above])
    deviation = float(adapted["label_variance"][0]) ** 0.5
    scale = layers.Rescaling(
        deviation, float(adapted["label_mean"][0]), dtype=floatx, name="quantiles"
    )
    return keras.Model(inputs, scale(x))
""",
            ),
            Edit(
                "losses.py",
                at.STANDARDIZED_ERROR,
                '''
    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), quantiles (batch, 3) -> float (batch,)."""
        error = (labels - predictions) / LABEL_DEVIATION
        levels = tf.constant(QUANTILES, error.dtype)
        return tf.reduce_sum(tf.maximum(levels * error, (levels - 1) * error), axis=-1)

    return {"main": pinball}
''',
            ),
            after(
                "losses.py",
                "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n",
                "QUANTILES = (0.1, 0.5, 0.9)\n",
            ),
            Edit(
                "metrics.py",
                'return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}',
                'return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, '
                '"coverage": keras.metrics.Mean()}',
            ),
            Edit(
                "steps.py",
                at.UPDATE_MAE + at.UPDATE_R2,
                """    run.metrics["mae"].update_state(labels, predictions[:, 1:2], weights)
    run.metrics["r2"].update_state(labels, predictions[:, 1:2], weights)
    is_inside = (labels > predictions[:, :1]) & (labels < predictions[:, 2:])  # (batch, 1)
    run.metrics["coverage"].update_state(tf.cast(is_inside[:, 0], labels.dtype), weights)
""",
                where="*",
            ),
            Edit(
                "pictures.py",
                "return predict_in_parts(run.model, inputs)[:, 0]",
                "return predict_in_parts(run.model, inputs)[:, 1]",
            ),
            Edit(
                "predictions.py",
                at.PROGRESSION,
                "    low, median, high = np.asarray(outputs).T\n"
                '    return {"progression": median, "low": low, "high": high}\n',
            ),
        ),
    ),
    Change(
        name="regression as a histogram",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                at.PREDICTION + at.UNSCALED,
                """    x = layers.Concatenate()([x, hidden])
    logits = layers.Dense(BINS, dtype=floatx, name="logits")(x)  # (batch, bins)
    return keras.Model(inputs, logits)
""",
            ),
            after("model.py", at.CONFIG_IMPORT, "from .losses import BINS\n"),
            Edit(
                "losses.py",
                at.STANDARDIZED_ERROR,
                '''
    def histogram_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), logits (batch, bins) -> float (batch,) (Imani & White, 2018).

        The cross-entropy with a normal distribution around the label, cut to the bins.
        """
        edges = tf.linspace(tf.constant(LOWEST, logits.dtype), HIGHEST, BINS + 1)
        below = tf.math.erf((edges - labels) / (SPREAD * 2**0.5))  # (batch, bins + 1)
        truth = (below[:, 1:] - below[:, :-1]) / (below[:, -1:] - below[:, :1])
        return tf.nn.softmax_cross_entropy_with_logits(truth, logits)

    return {"main": histogram_loss}


def expected(logits: tf.Tensor) -> tf.Tensor:
    """The mean of a histogram, (batch, bins) -> (batch, 1), in units of the data."""
    half = (HIGHEST - LOWEST) / BINS / 2
    centers = tf.linspace(tf.constant(LOWEST + half, logits.dtype), HIGHEST - half, BINS)
    return tf.reduce_sum(tf.nn.softmax(logits) * centers, axis=-1, keepdims=True)
''',
            ),
            Edit(
                "losses.py",
                "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n",
                "LOWEST, HIGHEST, BINS = 0.0, 375.0, 25  # labels are from 25 to 346\n"
                "SPREAD = 15.0  # standard deviation around a label\n",
            ),
            Edit("steps.py", "import compute_loss\n", "import compute_loss, expected\n"),
            Edit(
                "steps.py",
                at.UPDATE_MAE + at.UPDATE_R2,
                """    means = expected(predictions)  # (batch, 1)
    run.metrics["mae"].update_state(labels, means, weights)
    run.metrics["r2"].update_state(labels, means, weights)
""",
                where="*",
            ),
            Edit(
                "pictures.py",
                "return predict_in_parts(run.model, inputs)[:, 0]",
                "logits = tf.convert_to_tensor(predict_in_parts(run.model, inputs))\n"
                "        return expected(logits).numpy()[:, 0]",
            ),
            after("pictures.py", "import numpy as np\n", "import tensorflow as tf\n"),
            after(
                "pictures.py",
                "from .data import CATEGORY, MEANINGS, numeric_columns\n",
                "from .losses import expected\n",
            ),
            Edit(
                "predictions.py",
                at.PROGRESSION,
                "    logits = tf.convert_to_tensor(outputs)\n"
                '    return {"progression": expected(logits).numpy()[:, 0]}\n',
            ),
            after("predictions.py", "import numpy as np\n", "import tensorflow as tf\n"),
            after(
                "predictions.py", "from .data import CATEGORY\n", "from .losses import expected\n"
            ),
        ),
    ),
    Change(
        name="hidden inputs and a variance of its own",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "    return None\n",
                '''    if not task.hidden:
        return None

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        """Hide some numeric values, as if they had not been measured."""
        inputs, labels, weights = batch
        numeric = inputs["numeric"]
        drawn = tf.random.stateless_uniform(numeric.shape, seed)
        nothing = tf.constant(float("nan"), numeric.dtype)
        numeric = tf.where(drawn < task.hidden, nothing, numeric)
        return inputs | {"numeric": numeric}, labels, weights

    return augment
''',
                "create_augment",
            ),
            after("data.py", "import numpy as np\n", "import tensorflow as tf\n"),
            before(
                "config.py",
                "    width: int = 32",
                "    hidden: float = 0.1  # fraction of numeric values that training hides; 0 disables\n",
            ),
            Edit(
                "model.py",
                at.PREDICTION + at.UNSCALED,
                """    x = layers.Dense(2, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 2)
    mean, variance = float(adapted["label_mean"][0]), float(adapted["label_variance"][0])
    center = layers.Rescaling(variance**0.5, mean, dtype=floatx)(x[:, :1])
    # The logarithm of the error's variance, in deviations of the labels: from -4 to 4.
    log_variance = 4 * ops.tanh(x[:, 1:] / 4)
    both = layers.Concatenate(dtype=floatx, name="prediction")([center, log_variance])
    return keras.Model(inputs, both)
""",
            ),
            Edit(
                "losses.py",
                at.STANDARDIZED_ERROR,
                '''
    def normal(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), mean and log variance (batch, 2) -> float (batch,)."""
        error = (labels - predictions[:, :1]) / LABEL_DEVIATION
        log_variance = predictions[:, 1:]
        return 0.5 * (log_variance + tf.square(error) * tf.exp(-log_variance))[:, 0]

    return {"main": normal}
''',
            ),
            Edit(
                "steps.py",
                at.UPDATE_MAE + at.UPDATE_R2,
                """    run.metrics["mae"].update_state(labels, predictions[:, :1], weights)
    run.metrics["r2"].update_state(labels, predictions[:, :1], weights)
""",
                where="*",
            ),
        ),
    ),
)
