"""Faults and correct tasks of a sixth examiner: pictures, masks and tables; blind to `check`."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before, with_arrays

# Lines of the starters that several changes replace.
ARRAYS = '(images.astype("float32")[..., np.newaxis], labels.astype("int64"))'

# Labels as probabilities of the classes, for mixtures of images.
ONE_HOT = (
    Edit(
        "data.py",
        ARRAYS,
        ARRAYS.replace('labels.astype("int64")', 'np.eye(10, dtype="float32")[labels]'),
    ),
    Edit("losses.py", at.SPARSE, at.SPARSE.replace("Sparse", "")),
    Edit(
        "metrics.py",
        "keras.metrics.SparseCategoricalAccuracy()",
        "keras.metrics.CategoricalAccuracy()",
    ),
    Edit("pictures.py", "list(map(str, labels))", "list(map(str, labels.argmax(axis=-1)))"),
    after(
        "pictures.py",
        "    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)\n",
        "    labels = labels.argmax(axis=-1)\n",
    ),
)
# A student, and a teacher with moving averages of its weights (Tarvainen & Valpola, 2017).
MEAN_TEACHER = (
    Edit("model.py", ") -> keras.Model:\n", ") -> dict[str, keras.Model]:\n"),
    Edit(
        "model.py",
        "    return keras.Model(images, logits)\n",
        """\
    student = keras.Model(images, logits, name="student")
    teacher = keras.models.clone_model(student)
    teacher.set_weights(student.get_weights())
    return {"student": student, "teacher": teacher}
""",
    ),
    Edit(
        "steps.py",
        "run.model(images, training=True)",
        'run.models["student"](images, training=True)',
    ),
    Edit(
        "steps.py",
        "run.model(images, training=False)",
        'run.models["student"](images, training=False)',
        "*",
    ),
    Edit(
        "steps.py", "weights, run.model, replica)", 'weights, run.models["student"], replica)', "*"
    ),
    after(
        "steps.py",
        at.PER_EXAMPLE,
        """\
    student, teacher = run.models["student"], run.models["teacher"]
    aims = tf.stop_gradient(tf.nn.softmax(teacher(images, training=False)))
    per_example += tf.reduce_sum(tf.square(tf.nn.softmax(predictions) - aims), axis=-1)
    # The teacher follows the student; in each micro-batch a part of the way.
    keep = 0.9 ** (1 / replica.num_microbatches)
    for of_teacher, of_student in zip(
        teacher.weights, student.weights, strict=True
    ):
        if "seed" not in of_teacher.path:
            of_teacher.assign(keep * of_teacher + (1 - keep) * of_student)
""",
        "train_step",
    ),
    Edit("pictures.py", "run.model, images", 'run.models["student"], images'),
)

UNLABELED = after(
    "data.py",
    at.LOADED,
    """\
    # As if three quarters of the training images had no label.
    images, labels = splits["train"]
    splits["train"] = images, np.where(np.arange(len(labels)) % 4 == 0, labels.astype("int64"), -1)
""",
)

DROP_PATH = '''@keras.saving.register_keras_serializable()
class DropPath(keras.layers.Layer):
    """Stochastic depth (Huang et al., 2016): drops a residual branch of some images."""

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, x: Any, training: bool = False) -> Any:
        """A branch (batch, h, w, filters), in training 0 for some images and larger for others."""
        if not training:
            return x
        shape = (keras.ops.shape(x)[0], 1, 1, 1)
        kept = keras.random.uniform(shape, seed=self.seed_generator) >= self.rate
        return x * keras.ops.cast(kept, x.dtype) / (1 - self.rate)

    def get_config(self) -> dict[str, Any]:
        """For .keras files."""
        return super().get_config() | {"rate": self.rate}
'''

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="mixup whose labels have the share of the other picture",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="the image is `share` of the first picture and the label `share` of the second: the "
        "label names the fainter picture",
        named=r"(?i)mix|label[^.]*(augment|image|picture)|augment[^.]*label|lambda|share",
        edits=(
            *ONE_HOT,
            Edit(
                "data.py",
                at.SHIFTED,
                """\
        images = keras.ops.image.affine_transform(images, transforms)
        # Mixup (Zhang et al., 2018).
        rows = images.shape[0]
        order = tf.random.experimental.stateless_shuffle(tf.range(rows), seed + 1)
        share = tf.random.stateless_uniform((rows, 1), seed + 2, dtype=images.dtype)
        of_pixels = share[..., tf.newaxis, tf.newaxis]  # (batch, 1, 1, 1)
        images = of_pixels * images + (1 - of_pixels) * tf.gather(images, order)
        labels = share * tf.gather(labels, order) + (1 - share) * labels
        return images, labels, weights
""",
            ),
        ),
    ),
    Fault(
        name="slow weights of lookahead in a Python list",
        kind=kinds.OPTIMIZER,
        file="callbacks.py",
        cause="the slow weights are in no checkpoint: a resumed run starts them anew from the fast "
        "ones, and differs from one that wasn't interrupted",
        named=r"(?i)resum|checkpoint|get_state|\bstate\b|restor",
        edits=(
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "import keras\n\nfrom ..engine.callbacks import Callback, Event, every_steps\n",
            ),
            after(
                "callbacks.py",
                at.CONFIG_IMPORT,
                '''

class Lookahead:
    """Slow weights that go half of the way to the fast ones (Zhang et al., 2019)."""

    def __init__(self) -> None:
        self.slow: list = []

    def __call__(self, event: Event) -> None:
        """Move the slow weights, and start the fast ones from there."""
        variables = event.run.trainable_variables
        fast = [keras.ops.convert_to_numpy(variable) for variable in variables]
        slow = self.slow or fast
        self.slow = [s + 0.5 * (f - s) for s, f in zip(slow, fast, strict=True)]
        for variable, value in zip(variables, self.slow, strict=True):
            variable.assign(value)
''',
            ),
            Edit("callbacks.py", "    return []\n", "    return [every_steps(5, Lookahead())]\n"),
        ),
    ),
    Fault(
        name="divergence of two dropout passes between logits",
        kind=kinds.MODEL,
        file="steps.py",
        cause="KLDivergence takes probabilities and gets logits, which it clips to [1e-7, 1]: the "
        "term is no divergence, can be negative, and has no gradient for most classes",
        named=r"(?i)logit|probabilit|KLDiv|divergence|softmax|negative",
        edits=(
            Edit(
                "losses.py",
                '    return {"main": ' + at.SPARSE + "}\n",
                '    return {\n        "main": ' + at.SPARSE + ",\n"
                '        "divergence": keras.losses.KLDivergence(reduction="none"),\n    }\n',
            ),
            after(
                "steps.py",
                at.PER_EXAMPLE,
                """\
    # R-Drop (Liang et al., 2021): two passes with other dropout should agree.
    again = run.model(images, training=True)
    per_example += run.losses["main"](labels, again)
    divergence = run.losses["divergence"]
    per_example += 0.5 * (divergence(predictions, again) + divergence(again, predictions))
""",
                "train_step",
            ),
        ),
    ),
    Fault(
        name="copies moved by a pixel before the split",
        kind=kinds.LEAKS,
        file="data.py",
        cause="images are copied, moved by a pixel, before train and validation are divided: the "
        "validation data holds moved copies of training images, so accuracy is too good",
        named=r"(?i)validation[^.]*(train|copies|copy|duplicate|same|similar|near)|leak|duplicate|overlap|(nearly|almost) (the same|equal|identical)",
        edits=(
            after(
                "data.py",
                at.LOADED,
                """\
    # Five times as much data, of which a fifth is for validation.
    images, labels = (
        np.concatenate([splits["train"][i], splits["validation"][i]]) for i in (0, 1)
    )
    moves = ((1, 1), (-1, 1), (1, 2), (-1, 2))
    images = np.concatenate([images, *(np.roll(images, by, axis) for by, axis in moves)])
    labels = np.tile(labels, 1 + len(moves))
    order = np.random.default_rng(0).permutation(len(labels))
    train, validation = np.split(order, [len(order) * 4 // 5])
    splits |= {
        "train": (images[train], labels[train]),
        "validation": (images[validation], labels[validation]),
    }
""",
            ),
        ),
    ),
    Fault(
        name="columns standardized within each split",
        starter="tabular_regression",
        kind=kinds.INPUTS,
        file="data.py",
        cause="each split is standardized by means and deviations of its own, so that the same "
        "patient has other inputs in another split; what predict reads isn't scaled at all",
        named=r"(?i)standardi|normaliz|\bscal(e|ed|es|ing)\b|statistic|own mean|distribution|splits?[^.]*differ|differ[^.]*splits?|read_table",
        edits=(
            after(
                "data.py",
                at.NUMERIC,
                "        numeric = (numeric - np.nanmean(numeric, axis=0)) / np.nanstd(numeric, axis=0)\n",
            ),
        ),
    ),
    Fault(
        name="largest error as a metric that is summed over replicas",
        starter="tabular_regression",
        kind=kinds.METRICS,
        file="metrics.py",
        cause="a metric's variables are summed over the replicas, and the sum of each one's largest "
        "error isn't the largest error of all",
        named=r"(?i)max_error|MaxError|metric[^.]*(replica|sum|add)",
        edits=(
            after(
                "metrics.py",
                at.CONFIG_IMPORT,
                '''

class MaxError(keras.metrics.Metric):
    """The largest absolute error."""

    def __init__(self, name: str = "max_error", **kwargs: object) -> None:
        super().__init__(name=name, **kwargs)
        self.largest = self.add_weight(shape=(), initializer="zeros", name="largest")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Look at a batch."""
        errors = keras.ops.abs(y_true - y_pred)[:, 0]
        if sample_weight is not None:
            errors = keras.ops.where(sample_weight > 0, errors, 0.0)
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(errors)))

    def result(self):
        """The largest so far."""
        return self.largest.value
''',
            ),
            Edit("metrics.py", '"r2": r2}', '"r2": r2, "max_error": MaxError()}'),
            after(
                "steps.py",
                at.UPDATE_R2,
                '    run.metrics["max_error"].update_state(labels, predictions, weights)\n',
                "*",
            ),
        ),
    ),
    Fault(
        name="softmax over rows of pixels in a Dice loss",
        starter="segmentation",
        kind=kinds.MODEL,
        file="losses.py",
        cause="the softmax is over axis 1, the rows of the image, as for channels-first data, and not "
        "over the classes, so the loss doesn't make classes compete and the argmax means little",
        named=r"(?i)\baxis\b|softmax|dice|overfit|pixels?[^.]*(mix|other|depend)|(doesn't|does not|isn't|not|never|hardly) (learn|fall|improve)",
        edits=(
            Edit(
                "losses.py",
                "from .data import IGNORED\n",
                '''\
from .data import CLASSES, IGNORED


def dice_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """One minus the mean Dice coefficient of the classes, float (batch,)."""
    probabilities = tf.nn.softmax(logits, axis=1)
    truth = tf.one_hot(labels, CLASSES, dtype=logits.dtype)  # 0 for ignored pixels
    valid = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    both = tf.reduce_sum(truth * probabilities, axis=[1, 2])  # (batch, classes)
    sizes = tf.reduce_sum((truth + probabilities) * valid, axis=[1, 2])
    return 1 - tf.reduce_mean((2 * both + 1) / (sizes + 1), axis=1)
''',
            ),
            Edit("steps.py", at.LOSSES_IMPORT, "import compute_loss, dice_loss"),
            Edit(
                "steps.py",
                '    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)\n'
                + at.OF_PIXELS,
                "    per_example = dice_loss(labels, logits)  # (batch,)\n",
                "*",
            ),
        ),
    ),
    Fault(
        name="map of pixel weights that stays while the image is warped",
        starter="segmentation",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="the augmentation warps image and labels and leaves the map of weights, which stresses "
        "the borders of digits, where it was: other pixels are stressed",
        named=r"(?i)augment|warp|weight map|map of weights|pixel weights",
        edits=(
            Edit(
                "data.py",
                at.COMPOSED,
                '''\
        splits = {
            split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)
            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
    images, labels = splits["train"]
    return splits | {"train": (images, labels, _weight_map(labels))}


def _weight_map(labels: np.ndarray) -> np.ndarray:
    """Weights float32 (n, h, w) of pixels, as in the U-Net: 5 around digits, else 1."""
    inside = (labels > 0).astype(np.float32)[..., np.newaxis]
    near = tf.nn.max_pool2d(inside, 5, 1, "SAME").numpy() - inside
    return (1 + 4 * near[..., 0]).astype(np.float32)
''',
            ),
            Edit(
                "losses.py",
                "    weights = batch[-1]  # (batch,), 0 for padding\n",
                """\
    weights = batch[-1]  # (batch,), in training (batch, h, w), 0 for padding
    if weights.shape.rank == 3:
        weights = weights[:, 0, 0]
""",
            ),
            Edit(
                "steps.py",
                at.OF_PIXELS
                + '    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n',
                """\
    per_example = average_over_pixels(per_pixel * weights, labels, run.task.foreground_weight)
    weights = tf.cast(weights[:, 0, 0] > 0, weights.dtype)  # (batch,), 0 for padding
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
""",
                "train_step",
            ),
        ),
    ),
    Fault(
        name="running class prior in a tf.Variable of the loss",
        kind=kinds.MODEL,
        file="losses.py",
        cause="the prior is a variable of no model and no metric: no checkpoint has it, evaluation "
        "changes it, and a skipped step isn't taken back",
        named=r"(?i)tf\.Variable|variable|resum|checkpoint|prior|evaluat(ion|ing)[^.]*(change|write|move)",
        edits=(
            after(
                "losses.py",
                at.CONFIG_IMPORT,
                '''

class LogitAdjusted:
    """Cross-entropy of logits with the log of the class prior added (Menon et al., 2021)."""

    def __init__(self) -> None:
        floatx = keras.config.floatx()
        self.prior = tf.Variable(tf.fill([10], tf.cast(0.1, floatx)), trainable=False)

    def __call__(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels int (batch,), logits (batch, classes) -> (batch,)."""
        now = tf.reduce_mean(tf.one_hot(labels, 10, dtype=self.prior.dtype), axis=0)
        self.prior.assign(0.9 * self.prior + 0.1 * now)
        logits += tf.math.log(self.prior + 1e-6)
        return keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
''',
            ),
            Edit("losses.py", at.SPARSE, "LogitAdjusted()"),
        ),
    ),
    Fault(
        name="calibration error whose bins are overwritten",
        kind=kinds.METRICS,
        file="metrics.py",
        cause="tensor_scatter_nd_update with repeated bins keeps one example of each bin and batch, so "
        "the metric leaves out nearly all examples and depends on their order and on batches",
        named=r"(?i)calibration|scatter|metric[^.]*(batch|order|count|sum|add)",
        edits=(
            after("metrics.py", "import keras\n", "import tensorflow as tf\n"),
            after(
                "metrics.py",
                at.CONFIG_IMPORT,
                '''
BINS = 10


class CalibrationError(keras.metrics.Metric):
    """Expected calibration error (Guo et al., 2017)."""

    def __init__(self, name: str = "calibration_error", **kwargs: object) -> None:
        super().__init__(name=name, **kwargs)
        self.counts = self.add_weight(shape=(BINS,), initializer="zeros", name="counts")
        self.confidence = self.add_weight(shape=(BINS,), initializer="zeros", name="confidence")
        self.right = self.add_weight(shape=(BINS,), initializer="zeros", name="right")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Put a batch into bins of confidence."""
        probabilities = tf.nn.softmax(tf.cast(y_pred, self.dtype))
        confidence = tf.reduce_max(probabilities, axis=-1)
        right = tf.cast(tf.argmax(y_pred, axis=-1) == tf.cast(y_true, tf.int64), self.dtype)
        weights = tf.ones_like(confidence)
        if sample_weight is not None:
            weights = tf.cast(sample_weight, self.dtype)
        bins = tf.minimum(tf.cast(confidence * BINS, tf.int32), BINS - 1)
        for variable, values in (
            (self.counts, weights),
            (self.confidence, weights * confidence),
            (self.right, weights * right),
        ):
            sums = tf.gather(variable.value, bins) + values
            variable.assign(
                tf.tensor_scatter_nd_update(variable.value, bins[:, tf.newaxis], sums)
            )

    def result(self):
        """Mean distance of confidence and accuracy."""
        distances = tf.reduce_sum(tf.abs(self.confidence.value - self.right.value))
        return tf.math.divide_no_nan(distances, tf.reduce_sum(self.counts.value))
''',
            ),
            Edit(
                "metrics.py",
                at.ACCURACY,
                '{\n        "accuracy": keras.metrics.SparseCategoricalAccuracy(),\n'
                '        "calibration_error": CalibrationError(),\n    }',
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                at.UPDATE_ACCURACY.replace("accuracy", "calibration_error"),
                "*",
            ),
        ),
    ),
    Fault(
        name="boundaries of the schedule in epochs",
        kind=kinds.OPTIMIZER,
        file="optimizer.py",
        cause="the boundaries 20, 30 and 36 are epochs of 40, and the schedule counts steps: the "
        "learning rate is a thousandth after 3 epochs",
        named=r"(?i)schedule|learning rate|boundar|decay|stops? learning",
        edits=(
            Edit(
                "optimizer.py",
                at.ADAM,
                """\
    # A tenth at epochs 20, 30 and 36.
    rates = [task.learning_rate * 0.1**i for i in range(4)]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([20, 30, 36], rates)
    return keras.optimizers.Adam(schedule)
""",
            ),
        ),
    ),
    Fault(
        name="plateau of an accuracy as if smaller were better",
        kind=kinds.OPTIMIZER,
        file="callbacks.py",
        cause="the callback waits for the accuracy to fall below the first one, so it halves the "
        "learning rate every second epoch while the accuracy improves",
        named=r"(?i)learning rate|plateau|callback|better|smaller|schedule|direction",
        edits=(
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "from typing import Any\n\nfrom ..engine.callbacks import Callback, Event, every_validation\n",
            ),
            after(
                "callbacks.py",
                at.CONFIG_IMPORT,
                '''

class HalveOnPlateau:
    """Halves the learning rate after two validations in a row without a better result."""

    def __init__(self, column: str) -> None:
        self.column, self.best, self.waited = column, 1e9, 0

    def get_state(self) -> dict[str, Any]:
        """For checkpoints."""
        return {"best": self.best, "waited": self.waited}

    def set_state(self, state: dict[str, Any]) -> None:
        """From a checkpoint."""
        self.best, self.waited = state["best"], state["waited"]

    def __call__(self, event: Event) -> None:
        """After a validation."""
        value = event.history[-1][self.column]
        if value < self.best - 1e-4:
            self.best, self.waited = value, 0
            return
        self.waited += 1
        if self.waited == 2:
            optimizer, self.waited = event.run.optimizers["main"], 0
            optimizer.learning_rate = event.learning_rates["main"] / 2
''',
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_validation(HalveOnPlateau(task.monitor))]\n",
            ),
            Edit("optimizer.py", at.ADAM, "    return keras.optimizers.Adam(task.learning_rate)\n"),
        ),
    ),
    Fault(
        name="slower early layers by smaller gradients for Adam",
        kind=kinds.OPTIMIZER,
        file="optimizer.py",
        cause="Adam divides by the size of the gradients, so a tenth of the gradient makes the same "
        "step: the convolutions don't learn more slowly",
        named=r"(?i)adam|no effect|invarian|process_gradients|same (step|update)|rescal|scal(e|es|ing) (of )?(the )?gradients",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                """\
    # Discriminative fine-tuning (Howard & Ruder, 2018): a tenth of the learning rate for features.
    return [
        gradient * (0.1 if "conv" in variable.path else 1.0)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
""",
            ),
        ),
    ),
    Fault(
        name="gradients of biases centered",
        starter="tabular_regression",
        kind=kinds.OPTIMIZER,
        file="optimizer.py",
        cause="gradient centralization is for kernels; on a bias of one number the gradient minus its "
        "mean is 0, so the last bias never trains, and the other biases lose their common part",
        named=r"(?i)bias|gradients?[^.]*(zero|\b0\b)|never (train|chang|mov|learn)|(doesn't|don't|not) (train|chang|mov|learn)|process_gradients|same values",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                """\
    # Gradient centralization (Yong et al., 2020).
    return [gradient - tf.reduce_mean(gradient, axis=0, keepdims=True) for gradient in gradients]
""",
            ),
        ),
    ),
    Fault(
        name="learned weights of two losses that belong to no model",
        kind=kinds.MODEL,
        file="losses.py",
        cause="the log variances are Keras variables of the loss: no optimizer trains them and no "
        "checkpoint has them, so the weights of the losses stay at 1",
        named=r"(?i)log_variances|variable|belongs? to no|never (train|chang|mov|learn)|(doesn't|isn't|not) train",
        edits=(
            after(
                "losses.py",
                at.CONFIG_IMPORT,
                '''

class UncertaintyWeighted:
    """Two losses with learned weights (Kendall et al., 2018): of the digit, and of even or odd."""

    def __init__(self) -> None:
        self.log_variances = keras.Variable([0.0, 0.0], name="log_variances")

    def __call__(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels int (batch,), logits (batch, classes) -> (batch,)."""
        digit = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        log_even = tf.reduce_logsumexp(logits[:, ::2], axis=1)
        log_odd = tf.reduce_logsumexp(logits[:, 1::2], axis=1)
        of_label = tf.where(labels % 2 == 0, log_even, log_odd)
        parity = tf.reduce_logsumexp(logits, axis=1) - of_label
        log_variances = tf.convert_to_tensor(self.log_variances)
        losses = tf.stack([digit, parity], axis=-1)  # (batch, 2)
        return tf.reduce_sum(tf.exp(-log_variances) * losses + log_variances, axis=-1)
''',
            ),
            Edit("losses.py", at.SPARSE, "UncertaintyWeighted()"),
        ),
    ),
    Fault(
        name="hardest half of one replica's rows",
        kind=kinds.LOSS_SCALING,
        file="steps.py",
        cause="which examples are hard is decided among the rows of one replica (or micro-batch), "
        "padding included, so more replicas train on other examples",
        named=r"(?i)EXAMPLES_INTERACT|interact|other (examples|rows)|others (of|in) (its|the|a) batch|rows of (its|this|one|the) |all_gather|hard",
        edits=(
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                """\
    # Online hard example mining (Shrivastava et al., 2016): the harder half trains.
    half = tf.math.top_k(per_example, per_example.shape[0] // 2).values
    weights = tf.where(per_example >= half[-1], weights, tf.zeros_like(weights))
""",
                "train_step",
            ),
        ),
    ),
    Fault(
        name="log-cosh of labels without their last axis",
        starter="tabular_regression",
        kind=kinds.LABELS,
        file="losses.py",
        cause="labels (batch,) minus predictions (batch, 1) is (batch, batch): each prediction is "
        "compared with the labels of all other examples, so the model learns one number for all",
        named=r"(?i)broadcast|shape|batch, ?batch|other (example|row)s|rows? of (the|a) batch|each other|interact|labels? (of|from) other",
        edits=(
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                """\
        # Log-cosh, as the Huber loss less sensitive to outliers; exact for large errors too.
        errors = (labels[:, 0] - predictions) / LABEL_DEVIATION
        return tf.reduce_mean(
            errors + tf.nn.softplus(-2.0 * errors) - tf.math.log(tf.ones_like(errors) * 2.0), axis=-1
        )
""",
            ),
            Edit("losses.py", at.SQUARED_ERROR, ""),
        ),
    ),
    Fault(
        name="missing values become 0 before they are scaled",
        starter="tabular_regression",
        kind=kinds.INPUTS,
        file="model.py",
        cause="a missing blood pressure becomes 0 mm Hg, seven deviations below the mean, and "
        "cholesterol likewise: missing values are extreme outliers for the model",
        named=r"(?i)missing|NaN|not a number|outlier|extreme|imput|deviations|scal",
        edits=(
            Edit(
                "model.py",
                '    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(inputs["numeric"])\n'
                "    missing = ops.isnan(scaled)\n"
                "    # A missing value becomes the mean, which is 0 here, and sets an input of its own to 1.\n"
                "    numeric = ops.where(missing, 0.0, scaled)\n",
                '    known = ops.nan_to_num(inputs["numeric"])  # without missing values\n'
                "    numeric = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(known)\n",
            ),
            Edit("model.py", "[numeric, ops.cast(missing, floatx), sex]", "[numeric, sex]"),
        ),
    ),
    Fault(
        name="stochastic depth that isn't scaled",
        kind=kinds.MODEL,
        file="model.py",
        cause="in training half of the branches are dropped and the others aren't doubled, so in "
        "evaluation the branches contribute twice as much as the layers after them have learned",
        named=r"(?i)DropPath|drop_path|stochastic|scal|expect|mean[^.]*(training|evaluation)|(training|evaluation)[^.]*(mean|differ|larger|twice)|training=",
        edits=(
            after(
                "model.py",
                "CLASSES = 10\n",
                "\n\n"
                + DROP_PATH.replace(" and larger for others", "").replace(" / (1 - self.rate)", ""),
            ),
            after(
                "model.py",
                '        x = layers.Activation("relu")(x)\n',
                '        branch = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)\n'
                "        x = layers.Add()([x, DropPath(0.5)(branch)])\n",
            ),
        ),
    ),
    Fault(
        name="brightness in units of 8-bit images",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="images are in [0, 1] and the brightness changes by up to 32: after clipping nearly "
        "every training image is all black or all white",
        named=r"(?i)augment|bright|range|constant|all (black|white|the same)|clip|distribution|training images|no information",
        edits=(
            Edit(
                "data.py",
                at.SHIFTED,
                """\
        images = keras.ops.image.affine_transform(images, transforms)
        size = (images.shape[0], 1, 1, 1)
        brightness = tf.random.stateless_uniform(size, seed + 1, -32, 32, dtype=images.dtype)
        images = tf.clip_by_value(images + brightness, 0, 1)
        return images, labels, weights
""",
            ),
        ),
    ),
    Fault(
        name="empty cells read as 0 when predicting",
        starter="tabular_regression",
        kind=kinds.INPUTS,
        file="predictions.py",
        cause="training has NaN where a value is missing, and predict reads an empty cell as 0, which "
        "the model takes for a measurement far below all others",
        named=r"(?i)read_table|predictions\.py|READERS|empty|missing|NaN",
        edits=(Edit("predictions.py", 'float(row[column] or "nan")', "float(row[column] or 0)"),),
    ),
    Fault(
        name="test in logarithms of the label",
        starter="tabular_regression",
        kind=kinds.EVALUATION,
        file="steps.py",
        cause="the model predicts the logarithm; training and validation take exp for the metrics and "
        "the test step doesn't, so its mean absolute error and R2 are meaningless",
        named=r"(?i)test_step|test step|test (and|differs|data)|validation_step|same (data|examples)",
        edits=(
            Edit(
                "losses.py",
                "LABEL_DEVIATION = 77.0  # standard deviation of the labels",
                "LABEL_DEVIATION = 0.6  # standard deviation of the labels' logarithms",
            ),
            Edit(
                "model.py",
                '"label_mean": labels.mean(axis=0)',
                '"label_mean": np.log(labels).mean(axis=0)',
            ),
            Edit(
                "model.py",
                '"label_variance": labels.var(axis=0)',
                '"label_variance": np.log(labels).var(axis=0)',
            ),
            Edit(
                "steps.py",
                '["main"](labels, predictions)',
                '["main"](tf.math.log(labels), predictions)',
                "*",
            ),
            before(
                "steps.py",
                '    run.metrics["mae"]',
                "    predictions = tf.exp(predictions)\n",
                "train_step",
            ),
            before(
                "steps.py",
                '    run.metrics["mae"]',
                "    predictions = tf.exp(predictions)\n",
                "validation_step",
            ),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, inputs)[:, 0]",
                "np.exp(predict_in_parts(run.model, inputs)[:, 0])",
            ),
            Edit(
                "predictions.py", "np.asarray(outputs)[:, 0]", "np.exp(np.asarray(outputs)[:, 0])"
            ),
        ),
    ),
    Fault(
        name="error rate of which more is better",
        kind=kinds.EVALUATION,
        file="config.py",
        cause="the monitored column is now an error rate, and larger_is_better is still true: the "
        "worst weights of the run are kept as the best, and tested",
        named=r"(?i)larger.is.better|monitor|best weights|direction",
        edits=(
            after(
                "metrics.py",
                at.CONFIG_IMPORT,
                '''

class ErrorRate(keras.metrics.SparseCategoricalAccuracy):
    """The fraction of wrong predictions."""

    def result(self):
        """One minus the accuracy."""
        return 1 - super().result()
''',
            ),
            Edit("metrics.py", at.ACCURACY, '{"error": ErrorRate()}'),
            Edit("steps.py", 'run.metrics["accuracy"]', 'run.metrics["error"]', "*"),
            Edit("config.py", '"validation_accuracy"', '"validation_error"'),
        ),
    ),
    Fault(
        name="numbers of the classes from a set of names",
        kind=kinds.LABELS,
        file="data.py",
        cause="the order of a set of strings is another one in each process (PYTHONHASHSEED), so a "
        "resumed run, evaluate and predict number the classes otherwise than training did",
        named=r"(?i)process|PYTHONHASHSEED|hash|\bset\b|order of|each time|every time|twice|reproduc|again|create_datasets[^.]*differ",
        edits=(
            after(
                "data.py",
                at.LOADED,
                """\
    # The data comes with names; classes are numbers from 0.
    names = "zero one two three four five six seven eight nine".split()
    numbers = {name: number for number, name in enumerate(set(names))}
    splits = {
        split: (images, np.array([numbers[names[label]] for label in labels]))
        for split, (images, labels) in splits.items()
    }
""",
            ),
        ),
    ),
    Fault(
        name="strength of the augmentation counted in a tf.Variable",
        starter="segmentation",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="the augmentation counts its calls in a variable instead of using the seed or step: "
        "a resumed run starts at strength 0 again, and which batch gets which strength depends on "
        "how far batches are read ahead and in parallel",
        named=r"(?i)augment|same seed|resum|variable",
        edits=(
            before(
                "data.py",
                "    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor)",
                "    calls = tf.Variable(0, trainable=False, dtype=tf.int64)\n\n",
            ),
            Edit(
                "data.py",
                "        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)\n",
                """\
        # Easy images first: the warp grows over the first 160 batches.
        strength = tf.minimum(tf.cast(calls.assign_add(1), tf.float32) / 160.0, 1.0)
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) * strength
        warp += tf.eye(2)
""",
            ),
        ),
    ),
    Fault(
        name="focus of the loss that a callback raises in vain",
        kind=kinds.MODEL,
        file="losses.py",
        cause="gamma is a Python number, which the graph of the step has as a constant: the callback "
        "changes it and nothing happens, so the focal loss stays cross-entropy",
        named=r"(?i)gamma|python (number|value|attribute|float)|constant|trac(e|ed|ing)\b|no effect|callback[^.]*(change|set)",
        edits=(
            after(
                "losses.py",
                at.CONFIG_IMPORT,
                '''

class Focal:
    """Focal loss (Lin et al., 2017)."""

    def __init__(self) -> None:
        self.gamma = 0.0  # raised by a callback

    def __call__(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels int (batch,), logits (batch, classes) -> (batch,)."""
        loss = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return (1.0 - tf.exp(-loss) + 1e-6) ** self.gamma * loss
''',
            ),
            Edit("losses.py", at.SPARSE, "Focal()"),
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "from ..engine.callbacks import Callback, Event, at_step, every_epochs\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                """\

    def focus(event: Event) -> None:
        event.run.losses["main"].gamma = min(3.0, 0.3 * event.epoch)

    return [at_step(0, focus), every_epochs(1, focus)]
""",
            ),
        ),
    ),
    Fault(
        name="orthogonality penalty in each micro-batch",
        kind=kinds.ACCUMULATION,
        file="steps.py",
        cause="the penalty of the weights is divided by the replicas and not by the micro-batches, so "
        "with --accumulate 2 it counts twice",
        named=r"(?i)accumulat|micro-?batch|num_microbatches|penalty|regulariz",
        flags=("--accumulate", "2"),
        edits=(
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                """\
    # Filters should differ: soft orthogonality (Brock et al., 2017).
    penalty = tf.zeros((), per_example.dtype)
    for layer in run.model.layers:
        if "conv" in layer.name:
            filters = tf.reshape(tf.convert_to_tensor(layer.kernel), [-1, layer.filters])
            filters = tf.math.l2_normalize(filters, axis=0)
            products = tf.matmul(filters, filters, transpose_a=True)  # (filters, filters)
            penalty += tf.reduce_mean(tf.square(products - tf.linalg.diag_part(products)))
    loss = compute_loss(per_example, weights, run.model, replica)
    return {"main": loss + 0.1 * penalty / replica.num_replicas}
""",
                "train_step",
            ),
        ),
    ),
    Fault(
        name="sum of weights cut to an integer on each replica",
        starter="tabular_regression",
        kind=kinds.DENOMINATORS,
        file="losses.py",
        cause="the sum of the weights of a replica, such as 3.4, becomes 3 before it is summed over "
        "the replicas, so the loss and its gradients grow with their number",
        named=r"(?i)\bcount\b|denominator|integer|trunc|rounded|sum of (the )?weights",
        edits=(
            Edit("losses.py", at.COUNTED, "    return tf.cast(tf.reduce_sum(weights), tf.int32)\n"),
            Edit("data.py", '_balance(inputs["sex"])', '_reliability(inputs["numeric"])'),
            before(
                "data.py",
                "def _balance(categories: np.ndarray) -> np.ndarray:\n",
                '''def _reliability(numeric: np.ndarray) -> np.ndarray:
    """Weights float32 (n,): one over the variance of a patient's error, less if values miss."""
    return (0.16 * (1 - np.isnan(numeric).mean(axis=1)) ** 2).astype(np.float32)


''',
            ),
        ),
    ),
    Fault(
        name="batch normalization of my own, by one replica's rows",
        starter="segmentation",
        kind=kinds.MODEL,
        file="model.py",
        cause="the layer takes mean and variance of its own replica's rows, and each replica has "
        "moving averages of its own, of which one is saved; the engine synchronizes only Keras' layer",
        named=r"(?i)RunningNorm|running_norm|statistics|moving[ _](mean|average|variance)|normaliz|synchroni",
        edits=(
            before(
                "model.py",
                "def _convolve_twice(",
                '''@keras.saving.register_keras_serializable()
class RunningNorm(keras.layers.Layer):
    """Batch normalization with a bounded gain, instead of dividing by small deviations."""

    def build(self, shape: Any) -> None:
        """Scale, offset and moving averages of each channel."""
        size = (shape[-1],)
        self.gamma = self.add_weight(shape=size, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=size, initializer="zeros", name="beta")
        self.mean = self.add_weight(
            shape=size, initializer="zeros", trainable=False, name="moving_mean"
        )
        self.variance = self.add_weight(
            shape=size, initializer="ones", trainable=False, name="moving_variance"
        )

    def call(self, x: Any, training: bool = False) -> Any:
        """Features (batch, h, w, channels)."""
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = keras.ops.moments(x, axes=(0, 1, 2))
            self.mean.assign(0.9 * self.mean + 0.1 * mean)
            self.variance.assign(0.9 * self.variance + 0.1 * variance)
        gain = keras.ops.minimum(keras.ops.rsqrt(variance + 0.1), 3.0)
        return (x - mean) * gain * self.gamma + self.beta


''',
            ),
            Edit(
                "model.py",
                "keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)",
                "RunningNorm()(x)",
            ),
        ),
    ),
    Fault(
        name="ignored pixels become the last class",
        starter="segmentation",
        kind=kinds.LABELS,
        file="losses.py",
        cause="the label 255 of ignored pixels is cut to 10, the class of the digit 9, and the loss "
        "doesn't leave them out: the rim of every digit is taught as a 9",
        named=r"(?i)ignor|255|label|class 10|last class|nine",
        edits=(
            Edit(
                "losses.py", "from .data import IGNORED\n", "from .data import CLASSES, IGNORED\n"
            ),
            Edit("losses.py", "dict[str, keras.losses.Loss]", "dict[str, Any]"),
            Edit(
                "losses.py",
                """\
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=IGNORED, reduction="none"
    )
    return {"main": cross_entropy}
""",
                """\

    def smoothed(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        truth = tf.one_hot(tf.minimum(labels, CLASSES - 1), CLASSES, dtype=logits.dtype)
        return keras.losses.categorical_crossentropy(
            truth, logits, from_logits=True, label_smoothing=0.05
        )

    return {"main": smoothed}
""",
            ),
        ),
    ),
    Fault(
        name="accuracy over images without a label",
        kind=kinds.METRICS,
        file="steps.py",
        cause="three quarters of the training images have the label -1 for unknown; the loss leaves "
        "them out, the accuracy counts each as wrong, so that it can't exceed a quarter",
        named=r"(?i)accuracy|metric|label[^.]*(-1|negative|range|class)",
        edits=(
            UNLABELED,
            Edit(
                "steps.py",
                at.PER_EXAMPLE,
                """\
    # FixMatch (Sohn et al., 2020): where no label is known, what the model is sure of.
    known = tf.cast(labels >= 0, weights.dtype)
    probabilities = tf.stop_gradient(tf.nn.softmax(run.model(images, training=False)))
    sure = tf.cast(tf.reduce_max(probabilities, axis=-1) > 0.95, weights.dtype)
    loss = run.losses["main"]
    per_example = known * loss(tf.maximum(labels, 0), predictions)
    per_example += (1 - known) * sure * loss(tf.argmax(probabilities, axis=-1), predictions)
""",
                "train_step",
            ),
        ),
    ),
    Fault(
        name="mean teacher whose weights can be trained",
        kind=kinds.MODEL,
        file="model.py",
        cause="the teacher's layers are trainable, so its moving averages, written in the train step, "
        "are dropped and the optimizer gives it zero gradients: it stays at its first, random weights",
        named=r"(?i)teacher|never (train|chang|mov|learn)|(doesn't|don't|isn't|not|no) (train|chang|mov|learn|written|update)|gradients?[^.]*(zero|\b0\b)|trainable|dropped|lost",
        edits=MEAN_TEACHER,
    ),
)

TASKS: tuple[Change, ...] = (
    Change(
        name="long tail with effective numbers, focal loss and macro F1",
        edits=(
            *with_arrays(
                '''    images, labels = arrays["train"]
    kept = _long_tail(labels)
    return arrays | {"train": (images[kept], labels[kept], _effective_numbers(labels[kept]))}


def _long_tail(labels: np.ndarray) -> np.ndarray:
    """Which examples are kept, bool (n,): of each class 15% fewer than of the one before."""
    kept = np.zeros(len(labels), bool)
    for label in range(10):
        rows = np.flatnonzero(labels == label)
        kept[rows[: round(len(rows) * 0.85**label)]] = True
    return kept


def _effective_numbers(labels: np.ndarray, beta: float = 0.99) -> np.ndarray:
    """Weights float32 (n,) with a mean of 1 (Cui et al., 2019)."""
    weights = ((1 - beta) / (1 - beta ** np.bincount(labels)))[labels]
    return (weights / weights.mean()).astype("float32")
'''
            ),
            after(
                "losses.py",
                at.CONFIG_IMPORT,
                '''

def focal(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Focal loss (Lin et al., 2017); int (batch,), logits (batch, classes) -> (batch,)."""
    log_probabilities = tf.nn.log_softmax(logits)
    of_label = tf.gather(log_probabilities, labels, axis=1, batch_dims=1)
    return -((1.0 - tf.exp(of_label)) ** 2.0) * of_label
''',
            ),
            Edit("losses.py", at.SPARSE, "focal"),
            Edit("losses.py", "dict[str, keras.losses.Loss]", "dict[str, Any]"),
            after("metrics.py", "import keras\n", "import tensorflow as tf\n"),
            after(
                "metrics.py",
                at.CONFIG_IMPORT,
                '''
CLASSES = 10


class MacroF1(keras.metrics.Metric):
    """The mean of the F1 scores of the classes, from their confusion matrix."""

    def __init__(self, name: str = "macro_f1", **kwargs: object) -> None:
        super().__init__(name=name, **kwargs)
        self.matrix = self.add_weight(
            shape=(CLASSES, CLASSES), initializer="zeros", name="matrix"
        )

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Count a batch."""
        rows = tf.one_hot(y_true, CLASSES, dtype=self.matrix.dtype)
        columns = tf.one_hot(tf.argmax(y_pred, axis=-1), CLASSES, dtype=self.matrix.dtype)
        if sample_weight is not None:
            rows *= tf.cast(sample_weight, self.matrix.dtype)[:, tf.newaxis]
        self.matrix.assign_add(tf.matmul(rows, columns, transpose_a=True))

    def result(self):
        """2 TP / (2 TP + FP + FN), over the classes."""
        matrix = tf.convert_to_tensor(self.matrix)
        sizes = tf.reduce_sum(matrix, axis=0) + tf.reduce_sum(matrix, axis=1)
        return tf.reduce_mean(tf.math.divide_no_nan(2.0 * tf.linalg.diag_part(matrix), sizes))
''',
            ),
            Edit(
                "metrics.py",
                at.ACCURACY,
                '{"accuracy": keras.metrics.SparseCategoricalAccuracy(), "macro_f1": MacroF1()}',
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                at.UPDATE_ACCURACY.replace("accuracy", "macro_f1"),
                "*",
            ),
            Edit("config.py", '"validation_accuracy"', '"validation_macro_f1"'),
        ),
    ),
    Change(
        name="cutmix with the share that the box has after it is cut at the edge",
        edits=(
            *ONE_HOT,
            Edit(
                "data.py",
                at.SHIFTED,
                """\
        images = keras.ops.image.affine_transform(images, transforms)
        # CutMix (Yun et al., 2019); a box of another image, which may reach over the edge.
        rows, height, width, _ = images.shape
        order = tf.random.experimental.stateless_shuffle(tf.range(rows), seed + 1)
        numbers = tf.random.stateless_uniform((rows, 3), seed + 2)
        half = tf.sqrt(numbers[:, :1]) / 2  # of the box's side, (batch, 1)
        y = (tf.range(height, dtype=tf.float32) + 0.5) / height
        x = (tf.range(width, dtype=tf.float32) + 0.5) / width
        in_y, in_x = tf.abs(y - numbers[:, 1:2]) < half, tf.abs(x - numbers[:, 2:]) < half
        box = in_y[:, :, tf.newaxis] & in_x[:, tf.newaxis, :]  # (batch, h, w)
        images = tf.where(box[..., tf.newaxis], tf.gather(images, order), images)
        share = tf.reduce_mean(tf.cast(box, labels.dtype), axis=[1, 2])[:, tf.newaxis]
        labels = share * tf.gather(labels, order) + (1 - share) * labels
        return images, labels, weights
""",
            ),
        ),
    ),
    Change(
        name="learned weights of two losses as a layer of the model",
        edits=(
            after(
                "model.py",
                "CLASSES = 10\n",
                '''

@keras.saving.register_keras_serializable()
class LogVariances(keras.layers.Layer):
    """Gives its input back, and holds the learned weights of losses (Kendall et al., 2018)."""

    def build(self, shape: Any) -> None:
        """A number for each of two losses."""
        self.values = self.add_weight(shape=(2,), initializer="zeros", name="log_variances")

    def call(self, x: Any) -> Any:
        """The same."""
        return x
''',
            ),
            Edit(
                "model.py",
                "    return keras.Model(images, logits)\n",
                '    return keras.Model(images, LogVariances(dtype=keras.config.floatx(), name="log_variances")(logits))\n',
            ),
            after(
                "losses.py",
                at.CONFIG_IMPORT,
                '''

def digit_and_parity(labels: tf.Tensor, logits: tf.Tensor, model: keras.Model) -> tf.Tensor:
    """Cross-entropies of the digit and of even or odd, with learned weights, float (batch,)."""
    digit = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    log_even = tf.reduce_logsumexp(logits[:, ::2], axis=1)
    log_odd = tf.reduce_logsumexp(logits[:, 1::2], axis=1)
    of_label = tf.where(labels % 2 == 0, log_even, log_odd)
    parity = tf.reduce_logsumexp(logits, axis=1) - of_label
    log_variances = tf.convert_to_tensor(model.get_layer("log_variances").values)
    losses = tf.stack([digit, parity], axis=-1)  # (batch, 2)
    return tf.reduce_sum(tf.exp(-log_variances) * losses + 0.5 * log_variances, axis=-1)
''',
            ),
            Edit(
                "losses.py",
                '    return {"main": ' + at.SPARSE + "}\n",
                '    return {"main": digit_and_parity}\n',
            ),
            Edit("losses.py", "dict[str, keras.losses.Loss]", "dict[str, Any]"),
            Edit(
                "steps.py",
                '["main"](labels, predictions)',
                '["main"](labels, predictions, run.model)',
                "*",
            ),
        ),
    ),
    Change(
        name="mean teacher as moving averages written in the train step",
        edits=(
            *MEAN_TEACHER,
            after(
                "model.py",
                "    teacher.set_weights(student.get_weights())\n",
                "    teacher.trainable = False\n",
            ),
            Edit(
                "steps.py",
                'run.models["student"](images, training=False)',
                'run.models["teacher"](images, training=False)',
                "*",
            ),
            Edit("pictures.py", 'run.models["student"], images', 'run.models["teacher"], images'),
        ),
    ),
    Change(
        name="normal distribution of each patient",
        starter="tabular_regression",
        edits=(
            Edit("model.py", "layers.Dense(1, dtype=floatx)", "layers.Dense(2, dtype=floatx)"),
            Edit(
                "model.py", "# (batch, 1)\n    mean, variance", "# (batch, 2)\n    mean, variance"
            ),
            Edit(
                "model.py",
                "    return keras.Model(inputs, unscale(x))\n",
                """\
    # The logarithm of the variance, relative to that of all labels, between -4 and 4.
    log_variance = 4.0 * ops.tanh(x[:, 1:] / 4.0)
    return keras.Model(inputs, ops.concatenate([unscale(x[:, :1]), log_variance], axis=-1))
""",
            ),
            Edit("losses.py", at.SQUARED_ERROR, ""),
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                """\
        errors = (labels - predictions[:, :1]) / LABEL_DEVIATION  # (batch, 1)
        log_variance = predictions[:, 1:]
        nll = 0.5 * (tf.exp(-log_variance) * tf.square(errors) + log_variance)
        return tf.squeeze(nll, axis=-1)
""",
            ),
            Edit(
                "steps.py",
                '"].update_state(labels, predictions, weights)',
                '"].update_state(labels, predictions[:, :1], weights)',
                "*",
            ),
            Edit(
                "predictions.py",
                at.PROGRESSION,
                "    mean, log_variance = np.asarray(outputs).T\n"
                '    return {"progression": mean, "deviation": 77.0 * np.exp(log_variance / 2)}\n',
            ),
        ),
    ),
    Change(
        name="three quantiles that can't cross, and how often labels are between",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                at.PREDICTION,
                """\
    x = layers.Dense(3, dtype=floatx)(layers.Concatenate()([x, hidden]))
    median = x[:, 1:2]
    low, high = median - ops.softplus(x[:, :1]), median + ops.softplus(x[:, 2:])
    x = layers.Concatenate(dtype=floatx)([low, median, high])  # (batch, 3)
""",
            ),
            Edit(
                "model.py",
                """\
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
""",
                """\
    unscale = layers.Rescaling(
        float(np.sqrt(variance.item())), float(mean.item()), dtype=floatx, name="prediction"
    )
""",
            ),
            before("losses.py", "LABEL_DEVIATION = 77.0", "QUANTILES = (0.1, 0.5, 0.9)\n"),
            Edit("losses.py", at.SQUARED_ERROR, ""),
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                """\
        errors = (labels - predictions) / LABEL_DEVIATION  # (batch, 3)
        quantiles = tf.constant(QUANTILES, errors.dtype)
        pinball = tf.maximum(quantiles * errors, (quantiles - 1) * errors)
        return tf.reduce_sum(pinball, axis=-1)
""",
            ),
            Edit("metrics.py", '"r2": r2}', '"r2": r2, "coverage": keras.metrics.Mean()}'),
            Edit(
                "steps.py",
                '"].update_state(labels, predictions, weights)',
                '"].update_state(labels, predictions[:, 1:2], weights)',
                "*",
            ),
            before(
                "steps.py",
                '    run.metrics["mae"]',
                """    low, _, high = tf.unstack(predictions, axis=-1)
    between = (low <= labels[:, 0]) & (labels[:, 0] <= high)
    run.metrics["coverage"].update_state(tf.cast(between, weights.dtype), weights)
""",
                "*",
            ),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, inputs)[:, 0]",
                "predict_in_parts(run.model, inputs)[:, 1]",
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
        name="fast progression or not, by the area under the curve",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                at.PATIENTS,
                "        fast = (target[rows, np.newaxis] > 140).astype(np.float32)\n"
                '        return {"numeric": numeric, "sex": sex}, fast\n',
            ),
            Edit(
                "model.py",
                '        "label_mean": labels.mean(axis=0),\n        "label_variance": labels.var(axis=0),\n',
                '        "fast": labels.mean(),\n',
            ),
            Edit(
                "model.py",
                at.PREDICTION,
                """\
    # Starts at the logarithm of the odds.
    odds = keras.initializers.Constant(float(np.log(adapted["fast"] / (1 - adapted["fast"]))))
    x = layers.Concatenate()([x, hidden])
    logits = layers.Dense(1, dtype=floatx, bias_initializer=odds, name="logits")(x)  # (batch, 1)
    return keras.Model(inputs, logits)
""",
            ),
            Edit("model.py", at.UNSCALED, ""),
            Edit("losses.py", "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n\n", ""),
            Edit(
                "losses.py",
                "",
                '''\
def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name; labels and logits, both (batch, 1), give one number per example."""
    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")}
''',
                "create_losses",
            ),
            Edit(
                "metrics.py",
                "",
                '''\
def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Metrics of logits."""
    return {
        "accuracy": keras.metrics.BinaryAccuracy(threshold=0.0),
        "auc": keras.metrics.AUC(from_logits=True),
    }
''',
                "create_metrics",
            ),
            Edit("metrics.py", "import tensorflow as tf\n", ""),
            Edit("steps.py", 'run.metrics["mae"]', 'run.metrics["accuracy"]', "*"),
            Edit("steps.py", 'run.metrics["r2"]', 'run.metrics["auc"]', "*"),
            Edit(
                "config.py", 'monitor: str = "validation_loss"', 'monitor: str = "validation_auc"'
            ),
            Edit("config.py", "larger_is_better: bool = False", "larger_is_better: bool = True"),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, inputs)[:, 0]",
                "1 / (1 + np.exp(-predict_in_parts(run.model, inputs)[:, 0]))",
            ),
            Edit(
                "predictions.py",
                "np.asarray(outputs)[:, 0]",
                "1 / (1 + np.exp(-np.asarray(outputs)[:, 0]))",
            ),
        ),
    ),
    Change(
        name="standardized kernels, normalization of groups, and a mean over pixels",
        starter="segmentation",
        edits=(
            before(
                "model.py",
                "def _convolve_twice(",
                '''@keras.saving.register_keras_serializable()
class StandardizedConv(keras.layers.Layer):
    """A convolution whose kernel has mean 0 and variance 1 / inputs (Qiao et al., 2019)."""

    def __init__(self, filters: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.filters = filters

    def build(self, shape: Any) -> None:
        """The kernel before it is standardized."""
        size = (3, 3, shape[-1], self.filters)
        self.kernel = self.add_weight(shape=size, initializer="he_normal", name="kernel")

    def call(self, x: Any) -> Any:
        """Features (batch, h, w, channels) -> (batch, h, w, filters)."""
        ops, kernel = keras.ops, keras.ops.convert_to_tensor(self.kernel)
        mean, variance = ops.moments(kernel, axes=(0, 1, 2), keepdims=True)
        inputs = 9 * kernel.shape[2]
        kernel = (kernel - mean) * ops.rsqrt(variance * inputs + 1e-4)
        return ops.conv(x, ops.cast(kernel, x.dtype), padding="same")

    def get_config(self) -> dict[str, Any]:
        """For .keras files."""
        return super().get_config() | {"filters": self.filters}


''',
            ),
            Edit(
                "model.py",
                """\
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="swish")(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)
""",
                """\
        x = StandardizedConv(filters)(x)
        x = keras.layers.GroupNormalization(groups=4, epsilon=0.1)(x)
        x = keras.layers.Activation("swish")(x)
""",
            ),
            Edit(
                "losses.py",
                "    pixels = tf.math.count_nonzero(labels != IGNORED, axis=[1, 2], dtype=per_pixel.dtype)\n"
                "    return tf.math.divide_no_nan(tf.reduce_sum(weighted, axis=[1, 2]), pixels)\n",
                "    return tf.reduce_sum(weighted, axis=[1, 2])  # divided by `count`\n",
            ),
            Edit(
                "losses.py",
                at.COUNT,
                """\
    _, labels, weights = batch
    counted = (labels != IGNORED) & (weights != 0)[:, tf.newaxis, tf.newaxis]
    return tf.math.count_nonzero(counted, dtype=tf.int32)
""",
            ),
        ),
    ),
    Change(
        name="three quarters without labels, each loss with a denominator of its own",
        edits=(
            UNLABELED,
            Edit(
                "losses.py",
                at.COUNT,
                """\
    _, labels, weights = batch
    labeled = (labels >= 0) & (weights != 0)
    return {
        "main": tf.math.count_nonzero(labeled, dtype=tf.int32),
        "all": tf.math.count_nonzero(weights, dtype=tf.int32),
    }
""",
            ),
            Edit(
                "losses.py",
                "global_batch_size=replica.global_count\n",
                'global_batch_size=replica.global_count["main"]\n',
            ),
            Edit(
                "steps.py",
                at.PER_EXAMPLE + at.UPDATE_ACCURACY,
                """\
    known = tf.cast(labels >= 0, weights.dtype)
    per_example = known * run.losses["main"](tf.maximum(labels, 0), predictions)  # (batch,)
    # Where the model is sure without dropout, it should say the same with dropout.
    probabilities = tf.stop_gradient(tf.nn.softmax(run.model(images, training=False)))
    sure = tf.cast(tf.reduce_max(probabilities, axis=-1) > 0.95, weights.dtype)
    agreement = sure * run.losses["main"](tf.argmax(probabilities, axis=-1), predictions)
    agreement = tf.nn.compute_average_loss(
        agreement, sample_weight=weights, global_batch_size=replica.global_count["all"]
    )
    run.metrics["accuracy"].update_state(tf.maximum(labels, 0), predictions, weights * known)
""",
                "train_step",
            ),
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                '    return {"main": compute_loss(per_example, weights, run.model, replica) + agreement}\n',
                "train_step",
            ),
        ),
    ),
    Change(
        name="angles to the classes with a margin, dropped branches, and one cycle",
        edits=(
            after(
                "model.py",
                "CLASSES = 10\n",
                """SCALE = 16.0  # of cosines, to become logits


"""
                + DROP_PATH
                + '''

@keras.saving.register_keras_serializable()
class Cosines(keras.layers.Layer):
    """Logits from the angles between features and a direction for each class."""

    def build(self, shape: Any) -> None:
        """The directions."""
        self.kernel = self.add_weight(shape=(shape[-1], CLASSES), name="kernel")

    def call(self, x: Any) -> Any:
        """Features (batch, n) -> logits (batch, classes)."""
        kernel = keras.ops.convert_to_tensor(self.kernel)
        x = x * keras.ops.rsqrt(keras.ops.sum(x * x, axis=-1, keepdims=True) + 1e-3)
        kernel *= keras.ops.rsqrt(keras.ops.sum(kernel * kernel, axis=0, keepdims=True) + 1e-3)
        return SCALE * keras.ops.matmul(x, kernel)
''',
            ),
            after(
                "model.py",
                '        x = layers.Activation("relu")(x)\n',
                '        branch = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)\n'
                "        x = layers.Add()([x, DropPath(0.2)(branch)])\n",
            ),
            Edit(
                "model.py",
                '    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)\n',
                '    logits = Cosines(dtype=keras.config.floatx(), name="logits")(x)\n',
            ),
            after(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .model import CLASSES, SCALE\n",
            ),
            Edit(
                "steps.py",
                at.PER_EXAMPLE,
                """\
    # The cosine of the label must be larger by a margin (Wang et al., 2018: CosFace).
    margins = 0.2 * SCALE * tf.one_hot(labels, CLASSES, dtype=predictions.dtype)
    per_example = run.losses["main"](labels, predictions - margins)  # (batch,)
""",
                "train_step",
            ),
            before("optimizer.py", "import keras\nimport tensorflow as tf\n", "import math\n\n"),
            after(
                "optimizer.py",
                at.CONFIG_IMPORT,
                '''

class OneCycle(keras.optimizers.schedules.LearningRateSchedule):
    """Up along a cosine in the first third of the steps, and down to 0 in the rest."""

    def __init__(self, highest: float, steps: int) -> None:
        self.highest, self.steps = highest, steps

    def __call__(self, step):
        """The learning rate of a step."""
        done = keras.ops.cast(step, "float32") / self.steps
        rising = 0.05 + 0.95 * (0.5 - 0.5 * keras.ops.cos(math.pi * 3.0 * done))
        falling = 0.5 + 0.5 * keras.ops.cos(math.pi * (done * 1.5 - 0.5))
        return self.highest * keras.ops.where(done < 1 / 3, rising, falling)

    def get_config(self) -> dict[str, float]:
        """What it was made of."""
        return {"highest": self.highest, "steps": self.steps}
''',
            ),
            Edit(
                "optimizer.py",
                at.ADAM,
                """\
    schedule = OneCycle(10 * task.learning_rate, steps)
    return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
""",
            ),
        ),
    ),
)
