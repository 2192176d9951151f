"""Correct tasks of an examiner: changes of several functions, for `check` to accuse."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .tasks import TEST_BY_STEP, VALIDATION_BY_STEP
from .unusual import change_of

# ---------------------------------------------------------------------------------------------
# 1. image_classification: long tail, logit adjustment, macro recall

LONG_TAIL = change_of(
    name="long tailed digits with adjusted logits and macro recall",
    project="image_classification",
    edits=(
        Edit(
            "config.py",
            '    monitor: str = "validation_accuracy"  # column of history.csv that selects the best weights\n',
            "    tail: float = 0.8  # training images of a digit, as a fraction of those of the digit before it\n"
            "    prior: float = 1.0  # how much of the log frequencies is added to the logits in training\n"
            "    # column of history.csv that selects the best weights\n"
            '    monitor: str = "validation_macro_recall"\n',
        ),
        Edit(
            "config.py",
            '        for name in ("l2", "shift"):\n',
            "        if not 0.5 <= self.tail <= 1:\n"
            '            raise ValueError(f"--tail is {self.tail}; it must be at least 0.5 and at most 1.")\n'
            '        for name in ("l2", "shift", "prior"):\n',
        ),
        Edit(
            "data.py",
            """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    return {""",
            """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    splits["train"] = _long_tailed(*splits["train"], task.tail)  # the others stay balanced
    return {""",
        ),
        Edit(
            "data.py",
            "def _load_digits() -> dict[str, Arrays]:\n",
            '''def _long_tailed(images: np.ndarray, labels: np.ndarray, tail: float) -> Arrays:
    """The first images of each class: all of class 0, then each time `tail` as many."""
    kept = []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        kept.append(rows[: max(1, round(len(rows) * tail ** int(label)))])
    rows = np.sort(np.concatenate(kept))
    return images[rows], labels[rows]


def _load_digits() -> dict[str, Arrays]:
''',
        ),
        Edit(
            "model.py",
            """    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}
""",
            """    images, *_ = first_examples(datasets["train"], 1)
    counts = np.bincount(datasets["train"][1], minlength=CLASSES)
    return {
        "shape": images.shape[1:],
        "log_prior": np.log(counts / counts.sum()).astype("float32"),  # of the training labels
    }
""",
        ),
        Edit(
            "metrics.py",
            "import keras\n",
            "import keras\nimport tensorflow as tf\n",
        ),
        Edit(
            "metrics.py",
            "from .config import TaskConfig\n",
            '''from .config import TaskConfig
from .model import CLASSES


class MacroRecall(keras.metrics.Metric):
    """The fraction of right predictions of each class, averaged over the classes that occur."""

    def __init__(self, classes: int) -> None:
        super().__init__(name="macro_recall")
        self._classes = classes
        self._right = self.add_variable((classes,), "zeros", name="right")
        self._all = self.add_variable((classes,), "zeros", name="all")

    def update_state(self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add labels (batch,), logits (batch, classes) and weights (batch,)."""
        weights = tf.cast(sample_weight, self._all.dtype)[:, tf.newaxis]
        of_class = tf.one_hot(labels, self._classes, dtype=self._all.dtype) * weights
        is_right = tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels
        self._all.assign_add(tf.reduce_sum(of_class, axis=0))
        self._right.assign_add(
            tf.reduce_sum(of_class * tf.cast(is_right, of_class.dtype)[:, tf.newaxis], axis=0)
        )

    def result(self) -> tf.Tensor:
        """A scalar; 0 before the first example."""
        right, of_class = tf.convert_to_tensor(self._right), tf.convert_to_tensor(self._all)
        occurring = tf.reduce_sum(tf.cast(of_class > 0, of_class.dtype))
        recalls = tf.math.divide_no_nan(right, of_class)
        return tf.math.divide_no_nan(tf.reduce_sum(recalls), occurring)
''',
        ),
        Edit(
            "metrics.py",
            '    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}\n',
            """    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "macro_recall": MacroRecall(CLASSES),
    }
""",
        ),
        Edit(
            "steps.py",
            """    predictions = run.model(images, training=True)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
""",
            """    predictions = run.model(images, training=True)  # (batch, classes)
    # Logit adjustment (Menon et al., 2021): with the prior added in training only, the logits
    # themselves are those for classes that are equally frequent, as they are in evaluation.
    log_prior = tf.constant(run.adapted["log_prior"], predictions.dtype)  # (classes,)
    adjusted = predictions + run.task.prior * log_prior
    per_example = run.losses["main"](labels, adjusted)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    run.metrics["macro_recall"].update_state(labels, predictions, weights)
""",
            "train_step",
        ),
        *(
            Edit(
                "steps.py",
                """    run.metrics["accuracy"].update_state(labels, predictions, weights)
""",
                """    run.metrics["accuracy"].update_state(labels, predictions, weights)
    run.metrics["macro_recall"].update_state(labels, predictions, weights)
""",
                step,
            )
            for step in ("validation_step", "test_step")
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 2. image_classification: focal loss, five views in evaluation, calibration error

VIEWS = change_of(
    name="focal loss with five shifted views and calibration error",
    project="image_classification",
    edits=(
        Edit(
            "config.py",
            "    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables\n",
            "    shift: float = 1.0  # largest random shift of a training image, in pixels; 0 disables\n"
            "    gamma: float = 2.0  # how little the focal loss heeds examples that are right already\n",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:\n",
            "        if not self.gamma >= 1:\n"
            '            raise ValueError(f"--gamma is {self.gamma}; it must be at least 1.")\n'
            "        if not self.learning_rate > 0:\n",
        ),
        Edit(
            "losses.py",
            "from typing import Any\n",
            "from collections.abc import Callable\nfrom typing import Any\n",
        ),
        Edit(
            "losses.py",
            '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
''',
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; labels and log probabilities give one number per example."""

    def focal(labels: tf.Tensor, log_probabilities: tf.Tensor) -> tf.Tensor:
        """Labels (batch,), log probabilities (batch, classes) -> (batch,) (Lin et al., 2017)."""
        of_label = tf.gather(log_probabilities, labels, axis=1, batch_dims=1)
        wrong = tf.nn.relu(-tf.math.expm1(of_label))  # 1 - p, exact near 0
        return -(wrong**task.gamma) * of_label

    return {"main": focal}
''',
        ),
        Edit(
            "metrics.py",
            "import keras\n",
            "import keras\nimport tensorflow as tf\n",
        ),
        Edit(
            "metrics.py",
            "from .config import TaskConfig\n",
            '''from .config import TaskConfig

BINS = 15


class CalibrationError(keras.metrics.Metric):
    """The mean distance between confidence and accuracy in bins of confidence (Guo et al., 2017).

    It keeps the sums of each bin, which add up over batches and replicas; distances don't.
    """

    def __init__(self, bins: int) -> None:
        super().__init__(name="calibration_error")
        self._bins = bins
        self._weight = self.add_variable((bins,), "zeros", name="weight")
        self._excess = self.add_variable((bins,), "zeros", name="excess")

    def update_state(
        self, labels: tf.Tensor, log_probabilities: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add labels (batch,), log probabilities (batch, classes) and weights (batch,)."""
        dtype = self._weight.dtype
        confidence = tf.cast(tf.exp(tf.reduce_max(log_probabilities, axis=-1)), dtype)  # (batch,)
        predicted = tf.argmax(log_probabilities, axis=-1, output_type=labels.dtype)
        excess = confidence - tf.cast(predicted == labels, dtype)
        index = tf.minimum(tf.cast(confidence * self._bins, tf.int32), self._bins - 1)
        in_bin = tf.one_hot(index, self._bins, dtype=dtype)  # (batch, bins)
        in_bin *= tf.cast(sample_weight, dtype)[:, tf.newaxis]
        self._weight.assign_add(tf.reduce_sum(in_bin, axis=0))
        self._excess.assign_add(tf.reduce_sum(in_bin * excess[:, tf.newaxis], axis=0))

    def result(self) -> tf.Tensor:
        """A scalar from 0 to 1; 0 before the first example."""
        distances = tf.reduce_sum(tf.abs(tf.convert_to_tensor(self._excess)))
        return tf.math.divide_no_nan(distances, tf.reduce_sum(self._weight))
''',
        ),
        Edit(
            "metrics.py",
            '    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}\n',
            """    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "calibration_error": CalibrationError(BINS),
    }
""",
        ),
        Edit(
            "steps.py",
            "import tensorflow as tf\n",
            "import keras\nimport tensorflow as tf\n",
        ),
        Edit(
            "steps.py",
            "# TODO(11): one train step; default: predicts, updates the accuracy and returns the loss.\n",
            '''SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))  # pixels down and right, of the views


def average_over_views(model: keras.Model, images: tf.Tensor) -> tf.Tensor:
    """Log of the mean probabilities (batch, classes) of each image and its shifted copies."""
    _, height, width, _ = images.shape
    padded = tf.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]])
    views = [padded[:, 1 - y : 1 - y + height, 1 - x : 1 - x + width] for y, x in SHIFTS]
    logits = model(tf.concat(views, axis=0), training=False)  # (views x batch, classes)
    each = tf.stack(tf.split(tf.nn.log_softmax(logits), len(SHIFTS)))  # (views, batch, classes)
    return tf.reduce_logsumexp(each, axis=0) - tf.math.log(tf.cast(len(SHIFTS), each.dtype))


# TODO(11): one train step; default: predicts, updates the metrics and returns the loss.
''',
        ),
        Edit(
            "steps.py",
            """    predictions = run.model(images, training=True)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
""",
            """    predictions = tf.nn.log_softmax(run.model(images, training=True))  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    run.metrics["calibration_error"].update_state(labels, predictions, weights)
""",
            "train_step",
        ),
        *(
            Edit(
                "steps.py",
                """    predictions = run.model(images, training=False)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
""",
                """    predictions = average_over_views(run.model, images)  # (batch, classes)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    run.metrics["calibration_error"].update_state(labels, predictions, weights)
""",
                step,
            )
            for step in ("validation_step", "test_step")
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 3. two_heads: mixture of experts with a gate for each head, learned weights of the losses

EXPERTS = change_of(
    name="experts with a gate for each head and learned loss weights",
    project="two_heads",
    edits=(
        Edit(
            "config.py",
            "    shift: float = 0.5  # largest",
            "    experts: int = 4  # hidden layers that the heads share\n"
            "    shift: float = 0.5  # largest",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:\n",
            "        if self.experts < 1:\n"
            '            raise ValueError(f"--experts is {self.experts}; it must be at least 1.")\n'
            "        if not self.learning_rate > 0:\n",
        ),
        Edit(
            "model.py",
            """from .config import TaskConfig

CLASSES = 10
""",
            '''from .config import TaskConfig
from .losses import HEADS

CLASSES = {"digit": 10, "even": 2}
LOG_VARIANCES = "log_variances"  # the name of a layer


@keras.saving.register_keras_serializable("my_experiment")
class LogVariances(keras.layers.Layer):
    """Hands on its input, and holds the log variance of each head (Kendall et al., 2018)."""

    def __init__(self, heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = heads

    def build(self, input_shape: Any) -> None:
        """Make the weights, in full precision."""
        floatx = keras.config.floatx()
        self.values = self.add_weight(
            shape=(self.heads,), initializer="zeros", dtype=floatx, autocast=False, name="values"
        )

    def call(self, inputs: Any) -> Any:
        """The same."""
        return keras.ops.copy(inputs)

    def get_config(self) -> dict[str, Any]:
        """For `from_config`."""
        return {**super().get_config(), "heads": self.heads}
''',
        ),
        Edit(
            "model.py",
            """    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(task.dropout)(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)
    return keras.Model(images, {"digit": logits, "even": even})
""",
            """    x = LogVariances(len(HEADS), name=LOG_VARIANCES)(x)
    x = layers.Dropout(task.dropout)(x)
    each = [layers.Dense(48, activation="relu")(x) for _ in range(task.experts)]
    experts = keras.ops.stack(each, axis=1)  # (batch, experts, 48)
    outputs = {}
    for head in HEADS:
        # A mixture of the experts for each head (Ma et al., 2018); every expert takes part.
        gate = layers.Dense(task.experts, activation="softmax", name=f"{head}_gate")(x)
        mixed = keras.ops.sum(gate[..., np.newaxis] * experts, axis=1)  # (batch, 48)
        mixed = layers.Dropout(task.dropout)(mixed)
        # Full precision even under --precision float16, where the loss of such logits could
        # overflow.
        logits = layers.Dense(CLASSES[head], dtype=keras.config.floatx(), name=head)
        outputs[head] = logits(mixed)
    return keras.Model(images, outputs)
""",
        ),
        Edit(
            "steps.py",
            "from .losses import HEADS, weights_of_heads\n",
            "from .losses import HEADS, weights_of_heads\nfrom .model import LOG_VARIANCES\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The loss of each head, and their sum in which each is divided by its learned variance."""
    images, labels, _ = batch
    outputs = run.model(images, training=training)  # {head: (batch, classes)}
    weights = weights_of_heads(batch)
    terms = {}
    for head in HEADS:
        known = tf.maximum(labels[head], 0)  # any class will do where the weight is 0
        per_example = run.losses[head](known, outputs[head])  # (batch,)
        terms[head] = tf.nn.compute_average_loss(
            per_example, sample_weight=weights[head], global_batch_size=replica.global_count[head]
        )
        run.metrics[f"{head}_accuracy"].update_state(known, outputs[head], weights[head])
    log_variances = tf.convert_to_tensor(run.model.get_layer(LOG_VARIANCES).values)  # (heads,)
    weighted = tf.reduce_sum(tf.exp(-log_variances) * tf.stack([terms[head] for head in HEADS]))
    # Of no example, like regularization: each replica and micro-batch adds its share.
    price = 0.5 * tf.reduce_sum(log_variances) / replica.num_microbatches
    shared = tf.nn.scale_regularization_loss(price + replica.regularization(run.model))
    return {"main": weighted + shared, **terms}
''',
            "train_step",
        ),
        VALIDATION_BY_STEP,
    ),
)

# ---------------------------------------------------------------------------------------------
# 4. forecasting: recurrent, quantiles

QUANTILES = change_of(
    name="recurrent forecast of quantiles that do not cross",
    project="forecasting",
    edits=(
        Edit(
            "config.py",
            "    learning_rate: float = 1e-3  # learning rate at the start; decays to 0 along a cosine\n"
            "    units: int = 32  # units of the hidden layer\n",
            "    learning_rate: float = 5e-3  # largest learning rate; it rises first, then decays to 0\n"
            "    warmup: float = 0.1  # fraction of the run in which the learning rate rises\n"
            "    units: int = 32  # units of the recurrent layer\n",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:\n",
            "        if not 0 < self.warmup < 1:\n"
            '            raise ValueError(f"--warmup is {self.warmup}; it must be between 0 and 1.")\n'
            "        if not self.learning_rate > 0:\n",
        ),
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            "PAST, FUTURE = 24, 6  # hours\n"
            "QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)  # that are forecast, in rising order\n"
            "MEDIAN = QUANTILES.index(0.5)\n",
        ),
        Edit(
            "model.py",
            "from .data import COLUMNS, FUTURE, PAST\n",
            "from .data import COLUMNS, FUTURE, PAST, QUANTILES\n",
        ),
        Edit(
            "model.py",
            '''    """Past float (batch, PAST, columns) -> forecast (batch, FUTURE), in units of the data."""
''',
            '''    """Past float (batch, PAST, columns) -> quantiles (batch, FUTURE, quantiles) in data units."""
''',
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
""",
            """    x = layers.GRU(task.units)(x)  # (batch, units), the state after the last hour
    x = layers.Dense(FUTURE * len(QUANTILES), dtype=floatx)(x)
    x = layers.Reshape((FUTURE, len(QUANTILES)), dtype=floatx)(x)
    # The lowest quantile, then how far each is above the one before it: they can't cross.
    steps = ops.concatenate([x[..., :1], ops.softplus(x[..., 1:] - 1.0)], axis=-1)
    x = ops.cumsum(steps, axis=-1)
""",
        ),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
            """    warmup = max(1, int(task.warmup * steps))
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.05 * task.learning_rate,
        decay_steps=max(1, steps - warmup),
        warmup_target=task.learning_rate,
        warmup_steps=warmup,
    )
""",
        ),
        Edit(
            "losses.py",
            "from typing import Any\n",
            "from collections.abc import Callable\nfrom typing import Any\n",
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import QUANTILES\n",
        ),
        Edit(
            "losses.py",
            '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """None by name: the step squares the errors itself."""
    return {}
''',
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; labels and quantiles give one number per value."""

    def pinball(future: tf.Tensor, quantiles: tf.Tensor) -> tf.Tensor:
        """Labels (batch, FUTURE), forecast (batch, FUTURE, quantiles) -> (batch, FUTURE)."""
        levels = tf.constant(QUANTILES, quantiles.dtype)
        error = future[..., tf.newaxis] - quantiles
        return tf.reduce_mean(tf.maximum(levels * error, (levels - 1.0) * error), axis=-1)

    return {"main": pinball}
''',
        ),
        Edit(
            "metrics.py",
            '''    """The mean absolute error of each hour of the forecast."""
    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
''',
            '''    """The absolute error of each hour's median, and how often and how tightly 80% are enclosed."""
    names = [*(f"mae_{hour}" for hour in range(1, FUTURE + 1)), "coverage", "width"]
    return {name: keras.metrics.Mean() for name in names}
''',
        ),
        Edit("steps.py", "from .data import FUTURE\n", "from .data import FUTURE, MEDIAN\n"),
        Edit(
            "steps.py",
            '''    """The mean squared error of the values that are there."""
    past, future, _ = batch
    forecast = run.model(past, training=training)  # (batch, FUTURE)
    weights = weights_of_values(batch)  # (batch, FUTURE)
    error = tf.where(weights > 0, future, forecast) - forecast  # without NaN: 0 x NaN is NaN
    for hour in range(1, FUTURE + 1):
        absolute = tf.abs(error[:, hour - 1])  # (batch,)
        run.metrics[f"mae_{hour}"].update_state(absolute, weights[:, hour - 1])
    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}
''',
            '''    """The pinball loss of the values that are there."""
    past, future, _ = batch
    quantiles = run.model(past, training=training)  # (batch, FUTURE, quantiles)
    weights = weights_of_values(batch)  # (batch, FUTURE)
    future = tf.where(weights > 0, future, tf.zeros_like(future))  # without NaN: 0 x NaN is NaN
    per_value = run.losses["main"](future, quantiles)  # (batch, FUTURE)
    for hour in range(1, FUTURE + 1):
        absolute = tf.abs(future[:, hour - 1] - quantiles[:, hour - 1, MEDIAN])  # (batch,)
        run.metrics[f"mae_{hour}"].update_state(absolute, weights[:, hour - 1])
    low, high = quantiles[..., 0], quantiles[..., -1]  # (batch, FUTURE)
    is_inside = tf.cast((low <= future) & (future <= high), weights.dtype)
    run.metrics["coverage"].update_state(is_inside, weights)
    run.metrics["width"].update_state(high - low, weights)
    return {"main": compute_loss(per_value, weights, run.model, replica)}
''',
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 5. forecasting: attention over hours, recency weights, Huber error in units of the naive one

RECENT = change_of(
    name="recent windows count more and attention corrects yesterday",
    project="forecasting",
    edits=(
        Edit(
            "config.py",
            "    learning_rate: float = 1e-3  # learning rate at the start; decays to 0 along a cosine\n",
            "    learning_rate: float = 5e-3  # learning rate at the start, and after the first restart\n"
            "    cycles: int = 4  # how often the learning rate decays along a cosine\n"
            "    half_life: float = 240.0  # hours after which a training window counts half as much\n",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:\n",
            "        if self.cycles < 1:\n"
            '            raise ValueError(f"--cycles is {self.cycles}; it must be at least 1.")\n'
            "        if not self.half_life > 0:\n"
            '            raise ValueError(f"--half-life is {self.half_life}; it must be more than 0.")\n'
            "        if not self.learning_rate > 0:\n",
        ),
        Edit(
            "data.py",
            "COLUMNS, TARGET = (1, 2), 0  # what is read of a row; which of these to forecast\n",
            "COLUMNS = (0, 1, 2)  # what is read of a row: the hour, then what is measured\n"
            "INPUTS, TARGET = 4, 0  # columns: what is measured, sine and cosine of the time of day;\n"
            "# which of these to forecast\n"
            "DAY = 24  # hours\n",
        ),
        Edit(
            "data.py",
            '''    """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing."""
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}
''',
            '''    """Inputs float32 (n, PAST, INPUTS), labels float32 (n, FUTURE); NaN where missing.

    In training with weights float32 (n,), whose mean is 1: they halve with each --half-life.
    """
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
    hour, measured = rows[:, :1], rows[:, 1:]
    angle = 2 * np.pi * (hour % DAY) / DAY
    rows = np.concatenate([measured, np.sin(angle), np.cos(angle)], axis=1).astype(np.float32)
    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    parts = dict(zip(names, np.split(rows, ends), strict=True))
    splits: dict[str, Any] = {name: _windows(part) for name, part in parts.items()}
    inputs, labels = splits["train"]
    age = np.arange(len(inputs))[::-1]  # hours before the latest window
    weights = 0.5 ** (age / task.half_life)
    splits["train"] = inputs, labels, (weights / weights.mean()).astype(np.float32)
    return splits
''',
        ),
        Edit(
            "model.py",
            "from .data import COLUMNS, FUTURE, PAST\n",
            "from .data import DAY, FUTURE, INPUTS, PAST, TARGET\n\n"
            "DAY_BEFORE = slice(PAST - DAY, PAST - DAY + FUTURE)  # of the hours to forecast\n",
        ),
        Edit(
            "model.py",
            '''    """Means and variances of what is there: of each column, and of what to forecast."""
    inputs, labels = datasets["train"]
    return {
''',
            '''    """Means and variances of what is there: of each column, and of what to forecast.

    And the mean absolute error of the naive forecast, which repeats the day before.
    """
    inputs, labels, _ = datasets["train"]
    return {
        "naive_error": np.nanmean(np.abs(labels - inputs[:, DAY_BEFORE, TARGET])),
''',
        ),
        Edit(
            "model.py",
            '''    """Past float (batch, PAST, columns) -> forecast (batch, FUTURE), in units of the data."""
''',
            '''    """Past float (batch, PAST, INPUTS) -> forecast (batch, FUTURE), in units of the data."""
''',
        ),
        Edit(
            "model.py",
            '    past = keras.Input((PAST, len(COLUMNS)), name="past")\n',
            '    past = keras.Input((PAST, INPUTS), name="past")\n',
        ),
        Edit(
            "model.py",
            """    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
""",
            """    filled = ops.where(missing, 0.0, scaled)  # by the mean, which is 0
    x = layers.Concatenate()([filled, ops.cast(missing, floatx)])
    x = layers.Conv1D(task.units, 3, padding="causal", activation="relu")(x)  # (batch, PAST, units)
    # Each hour to forecast looks at the past hours in its own way.
    scores = ops.softmax(layers.Dense(FUTURE)(x), axis=1)  # (batch, PAST, FUTURE)
    seen = ops.matmul(ops.transpose(scores, (0, 2, 1)), x)  # (batch, FUTURE, units)
    yesterday = filled[:, DAY_BEFORE, TARGET]  # (batch, FUTURE), each at the same time of day
    latest = layers.RepeatVector(FUTURE)(x[:, -1])  # (batch, FUTURE, units)
    seen = layers.Concatenate()([seen, latest, yesterday[..., np.newaxis]])
    seen = layers.Dense(task.units, activation="relu")(seen)
    correction = layers.Dense(1, dtype=floatx)(seen)[..., 0]  # (batch, FUTURE)
    x = yesterday + correction
""",
        ),
        Edit(
            "optimizer.py",
            """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
            """    schedule = keras.optimizers.schedules.CosineDecayRestarts(
        task.learning_rate,
        first_decay_steps=max(1, -(-steps // task.cycles)),  # rounded up: no restart at the end
        t_mul=1.0,
        m_mul=0.7,  # each restart is lower than the one before
    )
    return keras.optimizers.AdamW(schedule, weight_decay=1e-3)
""",
        ),
        Edit(
            "losses.py",
            '    """None by name: the step squares the errors itself."""\n',
            '    """None by name: the step computes the robust errors itself."""\n',
        ),
        Edit(
            "losses.py",
            "def weights_of_values(",
            '''def huber(error: tf.Tensor) -> tf.Tensor:
    """Square near 0, straight beyond 1; of any shape."""
    size = tf.abs(error)
    return tf.where(size <= 1.0, 0.5 * tf.square(error), size - 0.5)


def weights_of_values(''',
        ),
        Edit(
            "metrics.py",
            '''    """The mean absolute error of each hour of the forecast."""
    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
''',
            '''    """The mean absolute error of each hour, and that of all as a fraction of the naive one."""
    hours = {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
    return {**hours, "mase": keras.metrics.Mean()}
''',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss, weights_of_values\n",
            "from .losses import compute_loss, huber, weights_of_values\n",
        ),
        Edit(
            "steps.py",
            '    """The mean squared error of the values that are there."""\n',
            '    """The robust error of the values that are there, in units of the naive one."""\n',
        ),
        Edit(
            "steps.py",
            '    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}\n',
            """    scaled = error / tf.constant(run.adapted["naive_error"], error.dtype)  # (batch, FUTURE)
    run.metrics["mase"].update_state(tf.abs(scaled), weights)
    return {"main": compute_loss(huber(scaled), weights, run.model, replica)}
""",
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 6. tabular_regression: Bayesian bootstrap

BOOTSTRAP = change_of(
    name="ensemble whose members weigh the patients at random",
    project="tabular_regression",
    edits=(
        Edit(
            "config.py",
            "    width: int = 32  # units of the hidden layer\n",
            "    members: int = 5  # networks whose predictions are averaged\n"
            "    width: int = 16  # units of the hidden layer of each\n",
        ),
        Edit(
            "config.py",
            "        if not 0 <= self.dropout < 1:\n",
            "        if self.members < 1:\n"
            '            raise ValueError(f"--members is {self.members}; it must be at least 1.")\n'
            "        if not 0 <= self.dropout < 1:\n",
        ),
        Edit(
            "data.py",
            "MASK_SEED, SPLIT_SEED = 0, 0\n",
            "MASK_SEED, SPLIT_SEED, BOOTSTRAP_SEED = 0, 0, 0\n",
        ),
        Edit(
            "data.py",
            '''    """The examples of each split: (inputs, labels), in training (inputs, labels, weights).

    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels
    float32 (n, 1), weights float32 (n,) with a mean of 1.
''',
            '''    """The examples of each split: (inputs, labels, weights).

    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels
    float32 (n, 1), weights float32 (n, members): in training with a mean of 1 for each member of
    the ensemble, else all 1.
''',
        ),
        Edit(
            "data.py",
            """    inputs, labels = examples(rest[~is_validation])
    return {
        "train": (inputs, labels, _balance(inputs["sex"])),
        "validation": examples(rest[is_validation]),
        "test": examples(test),
    }
""",
            """    splits = {
        "train": examples(rest[~is_validation]),
        "validation": examples(rest[is_validation]),
        "test": examples(test),
    }
    weights = {
        name: np.ones((len(labels), task.members), np.float32)
        for name, (_, labels) in splits.items()
    }
    weights["train"] = _bootstrap(_balance(splits["train"][0]["sex"]), task.members)
    return {name: (*parts, weights[name]) for name, parts in splits.items()}
""",
        ),
        Edit(
            "data.py",
            "def _balance(categories: np.ndarray) -> np.ndarray:\n",
            '''def _bootstrap(weights: np.ndarray, members: int) -> np.ndarray:
    """Weights float32 (n,) -> (n, members), each with a mean of 1.

    The Bayesian bootstrap (Rubin, 1981): random weights instead of random copies, so that no
    example is left out.
    """
    random = np.random.default_rng(BOOTSTRAP_SEED)
    drawn = weights[:, np.newaxis] * random.exponential(size=(len(weights), members))
    return (drawn / drawn.mean(axis=0)).astype(np.float32)


def _balance(categories: np.ndarray) -> np.ndarray:
''',
        ),
        Edit(
            "model.py",
            '    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 1).\n',
            '    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> (batch, members).\n',
        ),
        Edit(
            "model.py",
            """    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)
    hidden = layers.Dropout(task.dropout)(hidden)
    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))
""",
            """    outputs = []  # of each member, (batch, 1)
    for _ in range(task.members):
        hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)
        hidden = layers.Dropout(task.dropout)(hidden)
        outputs.append(layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden])))
    together = ops.concatenate(outputs, axis=1)  # (batch, members)
    mean, variance = (np.repeat(adapted[f"label_{m}"], task.members) for m in ("mean", "variance"))
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(together))
""",
        ),
        Edit(
            "pictures.py",
            "        return predict_in_parts(run.model, inputs)[:, 0]\n",
            "        return predict_in_parts(run.model, inputs).mean(axis=1)  # of the members\n",
        ),
        Edit(
            "predictions.py",
            '    return {"progression": np.asarray(outputs)[:, 0]}\n',
            """    members = np.asarray(outputs)  # (n, members)
    return {"progression": members.mean(axis=1), "deviation": members.std(axis=1)}
""",
        ),
        Edit(
            "losses.py",
            '''    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)
''',
            '''
    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), predictions (batch, members) -> (batch, members), about 1 - R2.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return tf.square(labels / LABEL_DEVIATION - predictions / LABEL_DEVIATION)
''',
        ),
        Edit(
            "losses.py",
            """    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)
""",
            """    return tf.math.count_nonzero(weights_of_examples(batch[-1]), dtype=tf.int32)
""",
        ),
        Edit(
            "losses.py",
            "# TODO(10): the number that",
            '''def weights_of_examples(weights: tf.Tensor) -> tf.Tensor:
    """The mean weight of each example, (batch, members) -> (batch,); 0 for padding."""
    return tf.reduce_mean(weights, axis=1)


# TODO(10): the number that''',
        ),
        Edit(
            "steps.py",
            "Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, labels (batch, 1), weights\n",
            "# Inputs, labels (batch, 1), weights (batch, members).\n"
            "Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]\n",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss, weights_of_examples\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The weighted error of each member, averaged; metrics are those of their mean prediction."""
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, members)
    of_members = run.losses["main"](labels, predictions)  # (batch, members)
    per_example = tf.reduce_mean(weights * of_members, axis=1)  # (batch,), weighted already
    ensemble = tf.reduce_mean(predictions, axis=1, keepdims=True)  # (batch, 1)
    example_weights = weights_of_examples(weights)  # (batch,)
    run.metrics["mae"].update_state(labels, ensemble, example_weights)
    run.metrics["r2"].update_state(labels, ensemble, example_weights)
    there = tf.cast(example_weights > 0, per_example.dtype)  # (batch,)
    return {"main": compute_loss(per_example, there, run.model, replica)}
''',
            "train_step",
        ),
        VALIDATION_BY_STEP,
        TEST_BY_STEP,
    ),
)

# ---------------------------------------------------------------------------------------------
# 7. tabular_regression: predicted deviations, adaptive clipping

DEVIATIONS = change_of(
    name="predicted deviations with weighted likelihood and adaptive clipping",
    project="tabular_regression",
    edits=(
        Edit(
            "config.py",
            "    dropout: float = 0.3  # fraction of hidden units",
            "    beta: float = 0.5  # 0: the likelihood; 1: the mean learns as from squared errors\n"
            "    dropout: float = 0.3  # fraction of hidden units",
        ),
        Edit(
            "config.py",
            "        if not 0 <= self.dropout < 1:\n",
            "        if not 0 <= self.beta <= 1:\n"
            '            raise ValueError(f"--beta is {self.beta}; it must be at least 0 and at most 1.")\n'
            "        if not 0 <= self.dropout < 1:\n",
        ),
        Edit(
            "model.py",
            '    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 1).\n',
            '    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 2).\n\n'
            "    The mean and the standard deviation of what is predicted.\n",
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))
""",
            """    x = layers.Dense(2, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 2)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    # Starts at about 0.75 of the labels' deviation, and stays away from 0.
    deviation = float(np.sqrt(variance[0])) * (ops.softplus(x[:, 1:]) + SMALLEST)
    return keras.Model(inputs, ops.concatenate([unscale(x[:, :1]), deviation], axis=1))
""",
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nSMALLEST = 0.05  # deviation that can be predicted, in deviations of the labels\n",
        ),
        Edit(
            "predictions.py",
            '    return {"progression": np.asarray(outputs)[:, 0]}\n',
            """    mean, deviation = np.asarray(outputs).T  # each (n,)
    return {"progression": mean, "deviation": deviation}
""",
        ),
        Edit(
            "losses.py",
            '''    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)

    return {"main": standardized_error}
''',
            '''
    def negative_log_likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), means and deviations (batch, 2) -> (batch,), but for a constant.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        deviation = predictions[:, 1] / LABEL_DEVIATION  # (batch,)
        error = (labels[:, 0] - predictions[:, 0]) / LABEL_DEVIATION  # (batch,)
        return 0.5 * tf.square(error / deviation) + tf.math.log(deviation)

    def weighted_by_variance(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """The same with examples that seem noisy given back their weight (Seitzer et al., 2022)."""
        deviation = tf.stop_gradient(predictions[:, 1] / LABEL_DEVIATION)  # (batch,)
        return deviation ** (2 * task.beta) * negative_log_likelihood(labels, predictions)

    # The weighted one serves for its gradient; its value can't be compared between models.
    return {"train": weighted_by_variance, "evaluation": negative_log_likelihood}
''',
        ),
        Edit(
            "losses.py",
            '# TODO(5): your losses, each with reduction="none";\n# default: the squared error of standardized labels.\n',
            '# TODO(5): your losses, each with reduction="none"; the likelihood of standardized labels.\n',
        ),
        Edit(
            "metrics.py",
            '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}\n',
            "    coverage = keras.metrics.Mean()  # how often 90% intervals hold the label\n"
            '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, "coverage": coverage}\n',
        ),
        Edit(
            "optimizer.py",
            """    \"\"\"One gradient for each of `variables`, the same on every replica.\"\"\"
    return gradients
""",
            '''    """One gradient for each of `variables`, the same on every replica.

    Adaptive clipping (Brock et al., 2021): the gradient of a unit's weights is at most LIMIT times
    as long as the weights themselves.
    """
    clipped = []
    for gradient, variable in zip(gradients, variables, strict=True):
        weights = tf.cast(tf.convert_to_tensor(variable.value), gradient.dtype)
        longest = LIMIT * tf.maximum(_unit_norms(weights), SHORTEST)
        norms = _unit_norms(gradient)
        factor = longest / tf.maximum(norms, longest)  # 1 where it is short enough
        clipped.append(gradient * factor)
    return clipped


def _unit_norms(values: tf.Tensor) -> tf.Tensor:
    """The norm of each column of a matrix, (1, units); of each number of a vector, (units,)."""
    if values.shape.rank < 2:
        return tf.abs(values)
    axes = list(range(values.shape.rank - 1))
    return tf.sqrt(tf.reduce_sum(tf.square(values), axis=axes, keepdims=True))
''',
        ),
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\n"
            "LIMIT, SHORTEST = 0.5, 1e-2  # of a gradient; what counts as the length of shorter weights\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Metrics of the mean, how often the interval is right, and the loss."""
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, 2)
    mean, deviation = predictions[:, :1], predictions[:, 1:]  # each (batch, 1)
    per_example = run.losses["train" if training else "evaluation"](labels, predictions)  # (batch,)
    run.metrics["mae"].update_state(labels, mean, weights)
    run.metrics["r2"].update_state(labels, mean, weights)
    is_inside = tf.abs(labels - mean) <= NINETY_PERCENT * deviation  # (batch, 1)
    run.metrics["coverage"].update_state(tf.cast(is_inside[:, 0], weights.dtype), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
            "train_step",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss\n\nNINETY_PERCENT = 1.645  # deviations to both sides of the mean\n",
        ),
        VALIDATION_BY_STEP,
        TEST_BY_STEP,
    ),
)

# ---------------------------------------------------------------------------------------------
# 8. segmentation: Dice, Adafactor, five crops in evaluation

CROPS = change_of(
    name="overlap loss with adafactor and five crops of each canvas",
    project="segmentation",
    edits=(
        Edit(
            "config.py",
            "    learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine\n",
            "    learning_rate: float = 5e-2  # largest change of a weight relative to its size; decays to 0\n"
            "    overlap_weight: float = 0.5  # weight of the overlap loss beside the cross-entropy\n",
        ),
        Edit(
            "config.py",
            '        for name in ("learning_rate", "width", "foreground_weight"):\n',
            '        for name in ("learning_rate", "width", "foreground_weight", "overlap_weight"):\n',
        ),
        Edit(
            "optimizer.py",
            "    return keras.optimizers.Adam(schedule)\n",
            "    return keras.optimizers.Adafactor(schedule)\n",
        ),
        Edit(
            "optimizer.py",
            "one for each model; default: Adam with a cosine schedule.\n",
            "one for each model; Adafactor with a cosine\n# schedule.\n",
        ),
        Edit(
            "losses.py",
            "# TODO(10): the number that",
            '''def overlap_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - Dice coefficient of ink, digits of all classes together: float (batch,).

    Labels: int (batch, h, w); logits (batch, h, w, classes). Ignored pixels don't count. With 1
    added above and below, a canvas without ink has a loss, too.
    """
    counted = tf.cast(labels != IGNORED, logits.dtype)  # (batch, h, w)
    ink = counted * tf.cast(labels > 0, logits.dtype)
    predicted = counted * (1.0 - tf.nn.softmax(logits)[..., 0])
    both = tf.reduce_sum(ink * predicted, axis=[1, 2])
    each = tf.reduce_sum(ink + predicted, axis=[1, 2])
    return 1.0 - (2.0 * both + 1.0) / (each + 1.0)


# TODO(10): the number that''',
        ),
        Edit(
            "steps.py",
            "import tensorflow as tf\n",
            "import keras\nimport tensorflow as tf\n",
        ),
        Edit(
            "steps.py",
            """from .losses import average_over_pixels, compute_loss
from .metrics import pixel_weights

""",
            """from .losses import average_over_pixels, compute_loss, overlap_loss
from .metrics import pixel_weights

MARGIN = 4  # pixels of background that are put around a canvas before it is cropped
# Where the crops begin, down and right, in the canvas with its margin: the corners and the middle.
CROPS = ((0, 0), (0, 2 * MARGIN), (2 * MARGIN, 0), (2 * MARGIN, 2 * MARGIN), (MARGIN, MARGIN))

""",
        ),
        Edit(
            "steps.py",
            "# TODO(11): one train step; default: predicts, updates the metric and returns the loss.\n",
            '''def average_over_crops(model: keras.Model, images: tf.Tensor) -> tf.Tensor:
    """Log of the mean probabilities, (batch, h, w, classes), in all crops that hold a pixel.

    Every pixel of the canvas is in the middle crop, and in at least one other.
    """
    _, height, width, _ = images.shape
    padded = tf.pad(images, [[0, 0], [MARGIN, MARGIN], [MARGIN, MARGIN], [0, 0]])
    total, number = 0.0, 0.0
    for top, left in CROPS:
        crop = padded[:, top : top + height, left : left + width]
        probabilities = tf.nn.softmax(model(crop, training=False))  # (batch, h, w, classes)
        back = [[top, 2 * MARGIN - top], [left, 2 * MARGIN - left]]
        total += tf.pad(probabilities, [[0, 0], *back, [0, 0]])
        number += tf.pad(tf.ones((height, width), probabilities.dtype), back)
    canvas = slice(MARGIN, MARGIN + height), slice(MARGIN, MARGIN + width)
    mean = total[:, canvas[0], canvas[1]] / number[canvas][..., tf.newaxis]
    return tf.math.log(tf.maximum(mean, keras.config.epsilon()))


def _loss(
    run: Run, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor, replica: Replica
) -> dict[str, tf.Tensor]:
    """Update the metric with logits (batch, h, w, classes), and the loss."""
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    per_example += run.task.overlap_weight * overlap_loss(labels, logits)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


# TODO(11): one train step; default: predicts, updates the metric and returns the loss.
''',
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    images, labels, weights = batch
    return _loss(run, run.model(images, training=True), labels, weights, replica)
''',
            "train_step",
        ),
        Edit(
            "steps.py",
            "",
            '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    images, labels, weights = batch
    return _loss(run, average_over_crops(run.model, images), labels, weights, replica)
''',
            "validation_step",
        ),
        Edit(
            "steps.py",
            "",
            '''def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return validation_step(run, batch, replica)
''',
            "test_step",
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 9. contrastive: VICReg

VICREG = change_of(
    name="invariance variance and covariance instead of negatives",
    project="contrastive",
    edits=(
        Edit(
            "config.py",
            "    monitor: str =",
            "    invariance: float = 25.0  # weight of the distance between an image's two features\n"
            "    variance: float = 25.0  # weight of what features lack of a deviation of 1\n"
            "    covariance: float = 1.0  # weight of the squared covariances of different features\n"
            "    monitor: str =",
        ),
        Edit(
            "config.py",
            '        for name in ("l2", "shift"):\n',
            '        for name in ("l2", "shift", "invariance", "variance", "covariance"):\n',
        ),
        Edit(
            "losses.py",
            "    return {}  # the step calls TensorFlow's cross-entropy itself\n",
            "    return {}  # the step calls `spread` itself\n",
        ),
        Edit(
            "losses.py",
            "# TODO(10): the number that",
            '''def spread(features: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """How far a whole batch is from features of deviation 1 without correlation: two scalars.

    Args:
        features: float (rows of all replicas, features).
        weights: float (rows of all replicas,), 0 for padding.
    """
    rows = tf.reduce_sum(weights)
    column = weights[:, tf.newaxis]
    mean = tf.math.divide_no_nan(tf.reduce_sum(column * features, axis=0), rows)
    centered = features - mean
    products = tf.matmul(centered, column * centered, transpose_a=True)
    covariance = products / tf.maximum(rows - 1.0, 1.0)  # (features, features)
    variances = tf.linalg.diag_part(covariance)
    lacking = tf.reduce_mean(tf.nn.relu(1.0 - tf.sqrt(variances + 1e-4)))
    others = tf.linalg.set_diag(covariance, tf.zeros_like(variances))
    return lacking, tf.reduce_sum(tf.square(others)) / features.shape[1]


# TODO(10): the number that''',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n\nTEMPERATURE = 0.1\n",
            "from .losses import compute_loss, spread\n\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """VICReg (Bardes et al., 2022): both versions of an image alike, and the features spread."""
    left, right, weights = batch
    left = run.model(left, training=training)  # (rows, features)
    right = run.model(right, training=training)  # (rows, features)
    distance = tf.reduce_mean(tf.math.squared_difference(left, right), axis=1)  # (rows,)
    # Of the whole batch, the same on every replica, so that each adds its share.
    all_weights = replica.all_gather(weights)  # (rows of all replicas,)
    all_left, all_right = replica.all_gather(left), replica.all_gather(right)
    spreads = [spread(features, all_weights) for features in (all_left, all_right)]
    lacking, correlated = (
        tf.add_n(pair) / replica.num_replicas for pair in zip(*spreads, strict=True)
    )
    _update_accuracy(run, left, all_right, weights, all_weights, replica)
    loss = compute_loss(run.task.invariance * distance, weights, run.model, replica)
    loss += run.task.variance * lacking + run.task.covariance * correlated
    mean_distance = tf.nn.compute_average_loss(
        distance, sample_weight=weights, global_batch_size=replica.global_count
    )
    return {
        "main": loss,
        "invariance": mean_distance,
        "variance": lacking,
        "covariance": correlated,
    }


def _update_accuracy(
    run: Run,
    left: tf.Tensor,
    all_right: tf.Tensor,
    weights: tf.Tensor,
    all_weights: tf.Tensor,
    replica: Replica,
) -> None:
    """How often the noisy version of an image is the most similar one of all in the batch."""
    left, all_right = (tf.math.l2_normalize(x, axis=1) for x in (left, all_right))
    similarity = tf.matmul(left, all_right, transpose_b=True)  # (rows, rows of all replicas)
    similarity = tf.where(all_weights > 0, similarity, -2.0)  # padding is no candidate
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `all_right`
    run.metrics["accuracy"].update_state(own, similarity, weights)
''',
            "train_step",
        ),
        VALIDATION_BY_STEP,
        Edit(
            "steps.py",
            "TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported\n",
            'TERMS = ("invariance", "variance", "covariance")  # reported beside the loss, without weights\n',
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 10. distillation: a student of few bits, falling temperature

BITS = change_of(
    name="student with rounded weights that heeds its teacher where it is right",
    project="distillation",
    edits=(
        Edit(
            "config.py",
            "    l2: float = 1e-4  #",
            "    bits: int = 4  # of each weight of the student; its biases stay as they are\n"
            "    hot: float = 4.0  # temperature at the start of training; falls to 1\n"
            "    l2: float = 1e-4  #",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:\n",
            "        if not 2 <= self.bits <= 8:\n"
            '            raise ValueError(f"--bits is {self.bits}; it must be at least 2 and at most 8.")\n'
            "        if not self.hot >= 1:\n"
            '            raise ValueError(f"--hot is {self.hot}; it must be at least 1.")\n'
            "        if not self.learning_rate > 0:\n",
        ),
        Edit(
            "model.py",
            'TEACHER = Path(__file__).with_name("teacher.keras")\n',
            '''TEACHER = Path(__file__).with_name("teacher.keras")


@keras.saving.register_keras_serializable("my_experiment")
class RoundedDense(keras.layers.Dense):
    """A dense layer that computes with a kernel of few bits, in training and afterwards.

    The optimizer moves the kernel of full precision: rounding passes gradients on as they are
    (Bengio et al., 2013).
    """

    def __init__(self, units: int, bits: int, **kwargs: Any) -> None:
        super().__init__(units, **kwargs)
        self.bits = bits

    def rounded_kernel(self) -> Any:
        """(inputs, units): whole multiples of a step, which is another one for each unit."""
        ops = keras.ops
        kernel = ops.convert_to_tensor(self.kernel)
        most = 2 ** (self.bits - 1) - 1
        largest = ops.max(ops.abs(ops.stop_gradient(kernel)), axis=0, keepdims=True)
        step = ops.maximum(largest / most, 1e-6)
        rounded = step * ops.round(ops.stop_gradient(kernel) / step)
        return kernel + ops.stop_gradient(rounded - kernel)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """(batch, inputs) -> (batch, units)."""
        x = keras.ops.matmul(inputs, self.rounded_kernel()) + self.bias
        return self.activation(x)

    def get_config(self) -> dict[str, Any]:
        """For `from_config`."""
        return {**super().get_config(), "bits": self.bits}
''',
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(32, activation="relu")(layers.Flatten()(images))
    x = layers.Dropout(task.dropout)(x)
    l2 = keras.regularizers.L2(task.l2)
    x = layers.Dense(CLASSES, kernel_regularizer=l2, dtype=keras.config.floatx(), name="logits")(x)
    return {"student": keras.Model(images, x), "teacher": load_frozen(TEACHER)}
""",
            """    x = RoundedDense(64, task.bits, activation="relu")(layers.Flatten()(images))
    x = layers.Dropout(task.dropout)(x)
    l2 = keras.regularizers.L2(task.l2)
    floatx = keras.config.floatx()
    logits = RoundedDense(CLASSES, task.bits, kernel_regularizer=l2, dtype=floatx, name="logits")
    return {"student": keras.Model(images, logits(x)), "teacher": load_frozen(TEACHER)}
""",
        ),
        Edit(
            "metrics.py",
            '    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}\n',
            """    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "trusted": keras.metrics.Mean(),  # how often the teacher is right
        "trusted_accuracy": keras.metrics.SparseCategoricalAccuracy(),  # where it is
    }
""",
        ),
        Edit(
            "steps.py",
            "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
            "HARD = 0.5  # how much of the loss comes from the labels\n",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    floatx = keras.config.floatx()
    done = tf.cast(replica.step, floatx) / tf.cast(max(1, run.num_steps), floatx)  # 0 to 1
    temperature = run.task.hot + (1.0 - run.task.hot) * tf.minimum(done, 1.0)
    return _step(run, batch, replica, temperature, training=True)


def _step(
    run: Run, batch: Batch, replica: Replica, temperature: tf.Tensor, *, training: bool
) -> dict[str, tf.Tensor]:
    """What labels and teacher say, softened by a temperature, the latter where it is right.

    The teacher is right on a part of the images only; on the others the label alone counts.
    """
    images, labels, weights = batch
    logits = run.model(images, training=training)  # (batch, classes)
    taught = tf.cast(run.models["teacher"](images, training=False), logits.dtype)
    hard = run.losses["hard"](labels, logits)  # (batch,)
    soft = run.losses["soft"](tf.nn.softmax(taught / temperature), logits / temperature)  # (batch,)
    is_right = tf.argmax(taught, axis=-1, output_type=labels.dtype) == labels
    trusted = tf.cast(is_right, logits.dtype)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    run.metrics["trusted"].update_state(trusted, weights)
    run.metrics["trusted_accuracy"].update_state(labels, logits, weights * trusted)
    per_example = HARD * hard + (1 - HARD) * trusted * temperature**2 * soft  # (batch,)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
            "train_step",
        ),
        Edit(
            "steps.py",
            "",
            '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss, always at a temperature of 1."""
    one = tf.ones((), keras.config.floatx())
    return _step(run, batch, replica, one, training=False)
''',
            "validation_step",
        ),
        Edit(
            "steps.py",
            "import tensorflow as tf\n",
            "import keras\nimport tensorflow as tf\n",
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 11. finetuning: one block after the other, drawn to where they started

UNFREEZE = change_of(
    name="blocks thaw one after the other and are drawn to their start",
    project="finetuning",
    edits=(
        Edit(
            "config.py",
            "    frozen_steps: int = 7  # steps in which the last layer trains alone\n",
            "    frozen_steps: int = 60  # steps after which one more block of the backbone trains\n"
            "    start: float = 1e-2  # factor of the squared distance of the backbone's weights from where\n"
            "    # they started, in the loss; 0 disables\n",
        ),
        Edit(
            "config.py",
            '        for name in ("l2", "shift"):\n',
            "        if self.frozen_steps < 1:\n"
            '            raise ValueError(f"--frozen-steps is {self.frozen_steps}; it must be at least 1.")\n'
            '        for name in ("l2", "shift", "start"):\n',
        ),
        Edit(
            "model.py",
            'BACKBONE = Path(__file__).with_name("backbone.keras")\n',
            '''BACKBONE = Path(__file__).with_name("backbone.keras")
BLOCKS = ("conv2d_1", "conv2d")  # of the backbone, the last one first


@keras.saving.register_keras_serializable("my_experiment")
class TowardStart(keras.regularizers.Regularizer):
    """The squared distance from given weights (Li et al., 2018), times a factor."""

    def __init__(self, factor: float, start: Any) -> None:
        self.factor = factor
        self.start = np.asarray(start)

    def __call__(self, weights: Any) -> Any:
        """Weights of any shape -> a scalar."""
        start = keras.ops.convert_to_tensor(self.start, dtype=weights.dtype)
        return self.factor * keras.ops.sum(keras.ops.square(weights - start))

    def get_config(self) -> dict[str, Any]:
        """For `from_config`."""
        return {"factor": self.factor, "start": self.start.tolist()}
''',
        ),
        Edit(
            "model.py",
            """        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
""",
            """        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
    if task.start:
        for name in BLOCKS:
            kernel = backbone.get_layer(name).kernel
            kernel.regularizer = TowardStart(task.start, keras.ops.convert_to_numpy(kernel))
""",
        ),
        Edit("callbacks.py", "import keras\n\n", ""),
        Edit(
            "callbacks.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .model import BLOCKS\n",
        ),
        Edit(
            "callbacks.py",
            '''    """Train the last layer alone for --frozen-steps steps, then everything."""

    def set_trainable(event: Event, trainable: bool) -> None:
        for layer in event.run.model.get_layer("backbone").layers:
            if not isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = trainable

    return [
        at_step(0, lambda event: set_trainable(event, False)),
        at_step(task.frozen_steps, lambda event: set_trainable(event, True)),
    ]
''',
            '''    """Train the last layer alone for --frozen-steps steps, then one block more, and so on."""

    def freeze(event: Event) -> None:
        for name in BLOCKS:
            event.run.model.get_layer("backbone").get_layer(name).trainable = False

    def thaw(event: Event, block: str) -> None:
        event.run.model.get_layer("backbone").get_layer(block).trainable = True

    thawing = [
        at_step(number * task.frozen_steps, lambda event, block=block: thaw(event, block))
        for number, block in enumerate(BLOCKS, start=1)
    ]
    return [at_step(0, freeze), *thawing]
''',
        ),
        Edit(
            "optimizer.py",
            """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)
    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)
""",
            """    # The deeper a layer, the slower (Howard & Ruder, 2018). Each counts its own steps, which begin
    # when its block thaws, so that their decays end later than the run does.
    optimizers = {
        prefix: keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(share * task.learning_rate, decay_steps=steps)
        )
        for prefix, share in (("logits/", 1.0), ("conv2d_1/", 0.3), ("", 0.1))
    }

    def optimizer_of(variable: keras.Variable) -> keras.optimizers.Optimizer:
        return next(o for prefix, o in optimizers.items() if variable.path.startswith(prefix))

    return keras.optimizers.MultiOptimizer(optimizer_of)
""",
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 12. gan: hinge loss, spectral normalization, two learning rates

SPECTRAL = change_of(
    name="hinge losses with spectral normalization and two time scales",
    project="gan",
    edits=(
        Edit(
            "config.py",
            "    learning_rate: float = 1e-3  # learning rate of both models at the start; decays to 0\n"
            "    dropout: float = 0.3  # fraction of the discriminator's features that training drops; 0 disables\n",
            "    learning_rate: float = 5e-4  # learning rate of the generator at the start; decays to 0\n"
            "    faster: float = 3.0  # how much larger that of the discriminator is\n",
        ),
        Edit(
            "config.py",
            """        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
""",
            """        if not self.faster > 0:
            raise ValueError(f"--faster is {self.faster}; it must be more than 0.")
""",
        ),
        Edit(
            "model.py",
            """    layers = keras.layers
    images = keras.Input((height, width, channels), name="images")
    x = images
    for filters in (32, 64):
        x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)
        x = layers.Dropout(task.dropout)(x)
        x = layers.Activation("leaky_relu")(x)  # (batch, h/2, w/2, filters), then (batch, h/4, ...)
    x = layers.Flatten()(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits, name="discriminator")
""",
            """    layers, floatx = keras.layers, keras.config.floatx()
    images = keras.Input((height, width, channels), name="images")
    x = images
    for filters in (32, 64):
        convolution = layers.Conv2D(filters, 4, strides=2, padding="same")
        x = layers.SpectralNormalization(convolution)(x)
        x = layers.Activation("leaky_relu")(x)  # (batch, h/2, w/2, filters), then (batch, h/4, ...)
    x = layers.Flatten()(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.SpectralNormalization(
        layers.Dense(1, dtype=floatx), dtype=floatx, name="logits"
    )
    return keras.Model(images, logits(x), name="discriminator")
""",
            "_create_discriminator",
        ),
        Edit(
            "model.py",
            '        "discriminator": _create_discriminator(task, height, width, channels),\n',
            '        "discriminator": _create_discriminator(height, width, channels),\n',
        ),
        Edit(
            "model.py",
            "def _create_discriminator(task: TaskConfig, height: int, width: int, channels: int) -> keras.Model:\n",
            "def _create_discriminator(height: int, width: int, channels: int) -> keras.Model:\n",
        ),
        Edit(
            "losses.py",
            "",
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example (Miyato et al., 2018)."""

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """0 if the logits are at least 1 on real images and at most -1 on generated ones."""
        loss_on_real = tf.nn.relu(1.0 - on_real[:, 0])  # (batch,)
        loss_on_generated = tf.nn.relu(1.0 + on_generated[:, 0])  # (batch,)
        return (loss_on_real + loss_on_generated) / 2

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low, also below 0, if the logits are high on generated images."""
        return -on_generated[:, 0]  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
            "create_losses",
        ),
        Edit(
            "losses.py",
            ";\n# default: cross-entropy of the discriminator's logits.\n",
            "; hinge losses of the\n# discriminator's logits.\n",
        ),
        Edit(
            "optimizer.py",
            """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    # Little momentum, because each model's task changes with the other (Radford et al., 2015).
    return {
        "generator": keras.optimizers.Adam(schedule, beta_1=0.5),
        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),
    }
""",
            """    # The discriminator is faster (Heusel et al., 2017). No momentum, because each model's task
    # changes with the other.
    rates = {"generator": 1.0, "discriminator": task.faster}
    return {
        name: keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(rate * task.learning_rate, decay_steps=steps),
            beta_1=0.0,
            beta_2=0.9,
        )
        for name, rate in rates.items()
    }
""",
        ),
        Edit(
            "steps.py",
            """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
""",
            """    # In one call, as each call in training normalizes the discriminator's weights anew.
    both = discriminator(tf.concat([images, generated], axis=0), training=True)  # (2 batch, 1)
    on_real, on_generated = tf.split(both, 2)  # each (batch, 1)
""",
            "discriminator_step",
        ),
        Edit(
            "steps.py",
            """    on_generated = discriminator(generated, training=True)  # (batch, 1)
""",
            """    # Not training: this step must leave the discriminator's weights as they are.
    on_generated = discriminator(generated, training=False)  # (batch, 1)
""",
            "generator_step",
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 13. vae: vector quantization

CODEBOOK = change_of(
    name="images coded by entries of a learned codebook",
    project="vae",
    edits=(
        Edit(
            "config.py",
            "    l2: float = 1e-4  #",
            "    commitment: float = 0.25  # how much the encoder is drawn to the entries that it chose\n"
            "    l2: float = 1e-4  #",
        ),
        Edit(
            "config.py",
            '        for name in ("l2", "shift"):\n',
            '        for name in ("l2", "shift", "commitment"):\n',
        ),
        Edit(
            "config.py",
            "    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine\n"
            "    dropout: float = 0.3  #",
            "    learning_rate: float = 2e-3  # learning rate at the start; falls in two steps\n"
            "    dropout: float = 0.0  #",
        ),
        Edit(
            "model.py",
            "CODE = 8  # numbers that an image is coded by\n",
            '''SLOTS, DIMENSIONS = 8, 4  # an image is coded by so many entries, each of so many numbers
ENTRIES = 32  # of the codebook


@keras.saving.register_keras_serializable("my_experiment")
class Codebook(keras.layers.Layer):
    """For each vector the nearest entry, and its number (van den Oord et al., 2017)."""

    def __init__(self, entries: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.entries = entries

    def build(self, input_shape: Any) -> None:
        """Make the entries."""
        start = keras.initializers.RandomNormal(stddev=0.5)
        self.codes = self.add_weight(
            shape=(self.entries, input_shape[-1]), initializer=start, name="codes"
        )

    def call(self, vectors: Any) -> dict[str, Any]:
        """(batch, slots, n) -> entries (batch, slots, n), their numbers int32 (batch, slots)."""
        ops = keras.ops
        distances = ops.sum(ops.square(self.codes), axis=1) - 2 * ops.matmul(
            vectors, ops.transpose(self.codes)
        )  # (batch, slots, entries), but for the squared length of the vector
        index = ops.argmin(distances, axis=-1)
        chosen = ops.matmul(ops.one_hot(index, self.entries, dtype=self.compute_dtype), self.codes)
        return {"chosen": chosen, "index": ops.cast(index, "int32")}

    def get_config(self) -> dict[str, Any]:
        """For `from_config`."""
        return {**super().get_config(), "entries": self.entries}
''',
        ),
        Edit(
            "model.py",
            '    """Images -> mean and log variance of the code (batch, 2 * CODE); code -> images."""\n',
            '    """Images -> vectors (batch, SLOTS, DIMENSIONS); vectors -> entries; entries -> images."""\n',
        ),
        Edit(
            "model.py",
            """    encoder = keras.Model(images, layers.Dense(2 * CODE, dtype=floatx)(x), name="encoder")
    code = keras.Input((CODE,), name="code")
    x = layers.Dense(128, activation="relu")(code)
""",
            """    x = layers.Dense(SLOTS * DIMENSIONS, dtype=floatx)(x)
    x = layers.Reshape((SLOTS, DIMENSIONS), dtype=floatx)(x)
    encoder = keras.Model(images, x, name="encoder")
    vectors = keras.Input((SLOTS, DIMENSIONS), name="vectors")
    codebook = keras.Model(vectors, Codebook(ENTRIES, dtype=floatx)(vectors), name="codebook")
    code = keras.Input((SLOTS, DIMENSIONS), name="code")
    x = layers.Dense(128, activation="relu")(layers.Flatten()(code))
""",
        ),
        Edit(
            "model.py",
            '    return {"encoder": encoder, "decoder": decoder}\n',
            '    return {"encoder": encoder, "codebook": codebook, "decoder": decoder}\n',
        ),
        Edit(
            "losses.py",
            "",
            '''def squared_distance(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """Of each example, (batch, slots, n) -> (batch,)."""
    return tf.reduce_sum(tf.math.squared_difference(a, b), axis=[1, 2])
''',
            "kl_divergence",
        ),
        Edit(
            "losses.py",
            'with reduction="none"; default: cross-entropy of logits.\n',
            'with reduction="none"; the squared error.\n',
        ),
        Edit(
            "metrics.py",
            "import keras\n",
            "import keras\nimport tensorflow as tf\n",
        ),
        Edit(
            "metrics.py",
            "from .config import TaskConfig\n",
            '''from .config import TaskConfig
from .model import ENTRIES


class Perplexity(keras.metrics.Metric):
    """How many entries of the codebook are in use: exp of the entropy of all that were chosen."""

    def __init__(self, entries: int) -> None:
        super().__init__(name="perplexity")
        self._entries = entries
        self._counts = self.add_variable((entries,), "zeros", name="counts")

    def update_state(self, index: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add numbers of entries int32 (batch, slots) with weights (batch,)."""
        chosen = tf.one_hot(index, self._entries, dtype=self._counts.dtype)
        weights = tf.cast(sample_weight, chosen.dtype)[:, tf.newaxis, tf.newaxis]
        self._counts.assign_add(tf.reduce_sum(weights * chosen, axis=[0, 1]))

    def result(self) -> tf.Tensor:
        """A scalar from 1 to the number of entries; 1 before the first example."""
        counts = tf.convert_to_tensor(self._counts)
        shares = tf.math.divide_no_nan(counts, tf.reduce_sum(counts))
        return tf.exp(-tf.reduce_sum(tf.math.xlogy(shares, shares)))
''',
        ),
        Edit("metrics.py", "    return {}\n", '    return {"perplexity": Perplexity(ENTRIES)}\n'),
        Edit(
            "metrics.py",
            "names in history.csv; default: accuracy.\n",
            "names in history.csv; default: how much of the\n# codebook is used.\n",
        ),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
            """    rates = [task.learning_rate, 0.3 * task.learning_rate, 0.1 * task.learning_rate]
    ends = [int(0.6 * steps), int(0.85 * steps)]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(ends, rates)
""",
        ),
        Edit(
            "optimizer.py",
            "default: Adam with a cosine schedule.\n",
            "default: Adam, slower in two steps.\n",
        ),
        Edit(
            "steps.py",
            """from .losses import compute_loss, kl_divergence, means

WARM_UP = 200  # steps until the KL divergence counts in full

""",
            """from .losses import compute_loss, means, squared_distance

""",
        ),
        Edit(
            "steps.py",
            "",
            '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The error of images decoded from entries of the codebook, and how far these are off."""
    images, _, weights = batch
    encoder, codebook, decoder = (run.models[n] for n in ("encoder", "codebook", "decoder"))
    vectors = encoder(images, training=training)  # (batch, SLOTS, DIMENSIONS)
    found = codebook(vectors, training=training)
    chosen = found["chosen"]  # (batch, SLOTS, DIMENSIONS)
    # The decoder sees the entries; its gradient goes to the encoder as if they were its vectors.
    decoded = decoder(vectors + tf.stop_gradient(chosen - vectors), training=training)
    error = run.losses["main"](images, decoded)  # (batch,)
    to_vectors = squared_distance(tf.stop_gradient(vectors), chosen)  # moves the entries
    to_entries = squared_distance(vectors, tf.stop_gradient(chosen))  # moves the encoder
    run.metrics["perplexity"].update_state(found["index"], weights)
    per_example = error + to_vectors + run.task.commitment * to_entries  # (batch,)
    loss = compute_loss(per_example, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "distance": to_entries}, weights, replica)}
''',
            "train_step",
        ),
        VALIDATION_BY_STEP,
        Edit(
            "steps.py",
            'TERMS = ("error", "kl")  # reported beside the loss\n',
            'TERMS = ("error", "distance")  # reported beside the loss\n',
        ),
    ),
)

# ---------------------------------------------------------------------------------------------
# 14. blank: learning to rank

RANK_CONFIG = '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Learning to rank."""

    learning_rate: float = 3e-3  # largest learning rate; it rises first, then decays to 0
    warmup: float = 0.1  # fraction of the run in which the learning rate rises
    width: int = 32  # numbers that represent a document
    heads: int = 2  # attention heads; they divide the width among them
    dropout: float = 0.1  # fraction of hidden units that training drops; 0 disables
    patience: int = 15  # validations without a better NDCG that end the run
    monitor: str = "validation_ndcg"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if not 0 < self.warmup < 1:
            raise ValueError(f"--warmup is {self.warmup}; it must be between 0 and 1.")
        if self.heads < 1 or self.width % self.heads:
            raise ValueError(f"--heads is {self.heads}; it must divide --width {self.width}.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if self.patience < 1:
            raise ValueError(f"--patience is {self.patience}; it must be at least 1.")
'''

RANK_DATA = '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

QUERIES = {"train": 960, "validation": 200, "test": 300}
DOCUMENTS, FEATURES = 12, 8  # at most, of a query; numbers that describe a document
FEWEST = 5  # documents of a query
GRADES = (1.2, 2.4, 3.6)  # utilities from which on a document is a little, more, most relevant
SEED = 0  # of the data; not --seed, so that every run is tested on the same queries


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: ({"features", "there"}, relevance), a row for each query.

    Features are float32 (n, DOCUMENTS, FEATURES), of which the last two are counts up to millions;
    "there" is bool (n, DOCUMENTS), False for what fills up a short list; relevance is float32
    (n, DOCUMENTS), 0 to 3.
    """
    random = np.random.default_rng(SEED)
    taste = random.normal(size=FEATURES)  # the same for all queries
    return {split: _queries(random, taste, number) for split, number in QUERIES.items()}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: training batches stay as they are."""
    return None


def _queries(
    random: np.random.Generator, taste: np.ndarray, number: int
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    hidden = random.normal(size=(number, DOCUMENTS, FEATURES))
    hidden += random.normal(size=(number, 1, FEATURES))  # queries differ
    linear = hidden @ taste / 2
    utility = linear + np.sin(2 * hidden[..., 0]) * hidden[..., 1]
    utility += 0.3 * random.normal(size=utility.shape)
    utility -= utility.mean(axis=1, keepdims=True)  # relevance is relative to the other documents
    documents = random.integers(FEWEST, DOCUMENTS + 1, size=(number, 1))
    there = np.arange(DOCUMENTS) < documents
    relevance = np.searchsorted(GRADES, utility) * there
    features = hidden.copy()
    features[..., -2:] = np.round(np.exp(2 * hidden[..., -2:] + 6))  # counts, such as of clicks
    features *= there[..., np.newaxis]
    inputs = {"features": features.astype(np.float32), "there": there}
    return inputs, relevance.astype(np.float32)
'''

RANK_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import DOCUMENTS, FEATURES

COUNTS = 2  # columns at the end that are counts


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Means and variances of the documents that are there, counts as logarithms."""
    inputs, _ = datasets["train"]
    features = inputs["features"][inputs["there"]]  # (documents of all queries, FEATURES)
    features = np.concatenate(
        [features[:, :-COUNTS], np.log1p(features[:, -COUNTS:])], axis=1, dtype=np.float64
    )
    return {
        "mean": features.mean(axis=0).astype(np.float32),
        "variance": features.var(axis=0).astype(np.float32),
    }


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"features" (batch, DOCUMENTS, FEATURES), "there" (batch, DOCUMENTS)} -> scores.

    Scores are float32 (batch, DOCUMENTS), larger for more relevant documents, and mean nothing
    where there is none.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    inputs = {
        "features": keras.Input((DOCUMENTS, FEATURES), dtype="float32", name="features"),
        "there": keras.Input((DOCUMENTS,), dtype="bool", name="there"),
    }
    features = inputs["features"]
    # In full precision, since 16 bits can't hold the counts.
    logarithms = ops.log1p(ops.cast(features[..., -COUNTS:], floatx))
    x = ops.concatenate([ops.cast(features[..., :-COUNTS], floatx), logarithms], axis=-1)
    scale = layers.Normalization(
        mean=adapted["mean"], variance=adapted["variance"], dtype=floatx, name="scale"
    )
    x = layers.Dense(task.width, activation="gelu")(scale(x))
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(task.width)(x)  # (batch, DOCUMENTS, width)
    # Documents look at the others of their query (Pang et al., 2020), not at those that fill up.
    y = layers.LayerNormalization()(x)
    attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
    x = x + attention(y, y, attention_mask=inputs["there"][:, np.newaxis, :])
    y = layers.LayerNormalization()(x)
    y = layers.Dropout(task.dropout)(layers.Dense(2 * task.width, activation="gelu")(y))
    x = layers.LayerNormalization()(x + layers.Dense(task.width)(y))
    scores = layers.Dense(1, use_bias=False, dtype=floatx, name="scores")(x)  # only order matters
    return keras.Model(inputs, scores[..., 0])
'''

RANK_LOSSES = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; relevance, scores and what is there give one number per query."""

    def listwise(relevance: tf.Tensor, scores: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
        """Each (batch, DOCUMENTS) -> (batch,): cross-entropy with the shares of the gain."""
        shares = tf.math.divide_no_nan(
            gains(relevance), tf.reduce_sum(gains(relevance), axis=1, keepdims=True)
        )
        masked = tf.where(there, scores, tf.constant(-1e9, scores.dtype))
        log_shares = tf.nn.log_softmax(masked, axis=1)
        return -tf.reduce_sum(tf.where(there, shares * log_shares, tf.zeros_like(scores)), axis=1)

    return {"main": listwise}


def gains(relevance: tf.Tensor) -> tf.Tensor:
    """What a document is worth: 0, 1, 3 or 7; of any shape."""
    return 2.0**relevance - 1.0


def weights_of_queries(batch: Any) -> tf.Tensor:
    """The weight of each query, float (batch,): 0 where no document is relevant.

    Every order is right then.
    """
    _, relevance, weights = batch
    return weights * tf.cast(tf.reduce_any(relevance > 0, axis=1), weights.dtype)


def count(batch: Any) -> tf.Tensor:
    """How many queries of `batch` have something to rank, an int32 scalar."""
    return tf.math.count_nonzero(weights_of_queries(batch), dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Args:
        per_example: float (batch,).
        weights: float (batch,), 0 for padding, and where there is nothing to rank.
        model: the model whose regularization losses are added.
        replica: `replica.global_count` is `count` summed over all replicas.

    Raises:
        ValueError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(
            f"The loss has shape {per_example.shape} and its weights {weights.shape}: create it "
            'with reduction="none", and average over further axes with tf.reduce_mean.'
        )
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
'''

RANK_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .losses import gains

TOP = 5  # documents that a reader looks at


class Ndcg(keras.metrics.Mean):
    """The discounted gain of the first TOP documents, as a fraction of the largest possible."""

    def update_state(
        self,
        relevance: tf.Tensor,
        scores: tf.Tensor,
        there: tf.Tensor,
        sample_weight: tf.Tensor,
    ) -> None:
        """Add queries: each (batch, DOCUMENTS), and weights (batch,)."""
        ranked = _ranked(relevance, scores, there)
        best = tf.sort(relevance, axis=1, direction="DESCENDING")
        ndcg = tf.math.divide_no_nan(_discounted(ranked), _discounted(best))
        super().update_state(ndcg, sample_weight)


class ReciprocalRank(keras.metrics.Mean):
    """1 / place of the first document of the query's highest relevance."""

    def update_state(
        self,
        relevance: tf.Tensor,
        scores: tf.Tensor,
        there: tf.Tensor,
        sample_weight: tf.Tensor,
    ) -> None:
        """Add queries: each (batch, DOCUMENTS), and weights (batch,)."""
        ranked = _ranked(relevance, scores, there)
        is_best = ranked == tf.reduce_max(ranked, axis=1, keepdims=True)
        place = tf.argmax(tf.cast(is_best, tf.int32), axis=1) + 1  # the first one
        super().update_state(1.0 / tf.cast(place, scores.dtype), sample_weight)


def _ranked(relevance: tf.Tensor, scores: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """Relevance in the order of the scores, what isn't there last, (batch, DOCUMENTS)."""
    masked = tf.where(there, scores, tf.constant(scores.dtype.min, scores.dtype))
    order = tf.argsort(masked, axis=1, direction="DESCENDING", stable=True)
    return tf.gather(relevance, order, axis=1, batch_dims=1)


def _discounted(relevance: tf.Tensor) -> tf.Tensor:
    """The discounted gain of the first TOP, (batch, DOCUMENTS) -> (batch,)."""
    places = tf.range(1, TOP + 1)
    discounts = tf.math.log(2.0) / tf.math.log(1.0 + tf.cast(places, tf.float32))
    return tf.reduce_sum(gains(relevance[:, :TOP]) * tf.cast(discounts, relevance.dtype), axis=1)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"ndcg": Ndcg(), "reciprocal_rank": ReciprocalRank()}
'''

RANK_OPTIMIZER = '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas."""
    warmup = max(1, int(task.warmup * steps))
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.1 * task.learning_rate,
        decay_steps=max(1, steps - warmup),
        warmup_target=task.learning_rate,
        warmup_steps=warmup,
    )
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=1e-3)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """Centralized (Yong et al., 2020): those of a unit's weights have a mean of 0."""
    return [
        gradient - tf.reduce_mean(gradient, axis=0, keepdims=True)
        if _is_matrix(variable)
        else gradient
        for gradient, variable in zip(gradients, variables, strict=True)
    ]


def _is_matrix(variable: keras.Variable) -> bool:
    """Inputs x units with several inputs; not those of attention, which have a third axis."""
    return len(variable.shape) == 2 and variable.name == "kernel"
'''

RANK_STEPS = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss, weights_of_queries

# {"features", "there"}, relevance (batch, DOCUMENTS), weights (batch,).
Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]


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
    inputs, relevance, _ = batch
    scores = run.model(inputs, training=training)  # (batch, DOCUMENTS)
    weights = weights_of_queries(batch)  # (batch,)
    per_query = run.losses["main"](relevance, scores, inputs["there"])  # (batch,)
    for name in ("ndcg", "reciprocal_rank"):
        run.metrics[name].update_state(relevance, scores, inputs["there"], weights)
    return {"main": compute_loss(per_query, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
'''

NO_PICTURES = '''"""No pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..engine.types import Run


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
'''

RANK_CALLBACKS = '''"""Functions that are called during training."""

from __future__ import annotations

import keras

from ..engine.callbacks import Callback
from ..engine.keras_callbacks import keras_callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Ends a run whose validation doesn't get better any more."""
    stop = keras.callbacks.EarlyStopping(monitor="val_ndcg", mode="max", patience=task.patience)
    return [keras_callback(stop)]
'''

RANKING = change_of(
    name="ranking of document lists by a listwise loss",
    project="blank",
    edits=(
        Edit("config.py", "", RANK_CONFIG),
        Edit("data.py", "", RANK_DATA),
        Edit("model.py", "", RANK_MODEL),
        Edit("losses.py", "", RANK_LOSSES),
        Edit("metrics.py", "", RANK_METRICS),
        Edit("optimizer.py", "", RANK_OPTIMIZER),
        Edit("steps.py", "", RANK_STEPS),
        Edit("pictures.py", "", NO_PICTURES),
        Edit("callbacks.py", "", RANK_CALLBACKS),
    ),
)

# ---------------------------------------------------------------------------------------------
# 15. blank: stars of short texts

STARS_CONFIG = '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Stars of short reviews."""

    learning_rate: float = 1e-2  # learning rate at the start; decays to 0 along a line
    width: int = 24  # numbers that represent a word
    dropout: float = 0.2  # fraction of the features of words that training drops; 0 disables
    monitor: str = "validation_kappa"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
        if self.width < 1:
            raise ValueError(f"--width is {self.width}; it must be at least 1.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
'''

STARS_DATA = '''"""The examples of each split, and the augmentation of training batches.

A review is a few words. The same short review is written often: it is one example that weighs as
much as all its copies, and its copies are in one split only.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

REVIEWS, SEED = 6_000, 0
STARS = 5
LENGTH = 8  # words at most
BUCKETS = 512  # numbers of words, 1 to BUCKETS - 1; 0 is no word
WORDS = {
    "awful": -3, "terrible": -3, "broken": -2, "ugly": -2, "slow": -1, "pricey": -1, "dull": -1,
    "okay": 0, "the": 0, "box": 0, "it": 0, "came": 0, "today": 0, "blue": 0, "for": 0, "my": 0,
    "fine": 1, "cheap": 1, "neat": 1, "good": 2, "sturdy": 2, "lovely": 3, "perfect": 3, "great": 2,
}  # fmt: skip
NOT, VERY = "not", "very"  # turn around, or double, what the next word says
LIMITS = (-3.0, -0.5, 1.0, 3.5)  # between the stars; high stars are frequent
TENTHS = {"validation": (0,), "test": (1, 2), "train": (3, 4, 5, 6, 7, 8, 9)}  # of the texts


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: words int32 (n, LENGTH), stars int32 (n,), weights float32 (n,).

    Stars are 0 to STARS - 1. Weights are proportional to the number of copies; their mean is 1.
    """
    copies = Counter(_reviews())
    splits = {}
    for split, tenths in TENTHS.items():
        # By text, not by review: a text that got different stars is in one split, too.
        rows = [
            (text, stars, n) for (text, stars), n in copies.items() if _hash(text) % 10 in tenths
        ]
        weights = np.array([n for *_, n in rows], np.float32)
        words = np.array([_numbers(text) for text, *_ in rows], np.int32)
        stars = np.array([stars for _, stars, _ in rows], np.int32)
        splits[split] = words, stars, weights / weights.mean()
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: training batches stay as they are."""
    return None


def _reviews() -> list[tuple[str, int]]:
    """Texts with their stars, many of them several times."""
    random = np.random.default_rng(SEED)
    vocabulary, frequencies = list(WORDS), 1.0 / (3.0 + np.arange(len(WORDS)))
    order = random.permutation(len(WORDS))
    frequencies = frequencies[order] / frequencies.sum()
    reviews = []
    for _ in range(REVIEWS):
        words, said = [], 0.0
        for _ in range(min(1 + random.geometric(0.5), LENGTH // 2)):
            word = vocabulary[random.choice(len(vocabulary), p=frequencies)]
            before = random.choice(["", "", "", NOT, VERY])
            words += [before, word] if before else [word]
            said += {"": 1.0, NOT: -1.0, VERY: 2.0}[before] * WORDS[word]
        opinion = said + 0.5 * random.normal()
        reviews.append((" ".join(words), int(np.searchsorted(LIMITS, opinion))))
    return reviews


def _hash(text: str) -> int:
    """The same in every process, unlike `hash`."""
    return zlib.crc32(text.encode())


def _numbers(text: str) -> list[int]:
    """The numbers of the words, then 0 up to LENGTH."""
    numbers = [1 + _hash(word) % (BUCKETS - 1) for word in text.split()]
    return numbers + [0] * (LENGTH - len(numbers))
'''

STARS_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import BUCKETS, LENGTH, STARS


@keras.saving.register_keras_serializable("my_experiment")
class OrderedThresholds(keras.layers.Layer):
    """A score (batch, 1) -> the logits (batch, classes - 1) that it is above each threshold.

    Each threshold is above the one before it, whatever the weights are.
    """

    def __init__(self, classes: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.classes = classes

    def build(self, input_shape: Any) -> None:
        """Make the first threshold, and how far apart the others are."""
        self.first = self.add_weight(
            shape=(1,), initializer=keras.initializers.Constant(-1.0), name="first"
        )
        self.gaps = self.add_weight(shape=(self.classes - 2,), initializer="zeros", name="gaps")

    def call(self, scores: Any) -> Any:
        """(batch, 1) -> (batch, classes - 1), falling along the second axis."""
        ops = keras.ops
        steps = ops.concatenate([self.first, ops.softplus(self.gaps)])
        return scores - ops.cumsum(steps)

    def get_config(self) -> dict[str, Any]:
        """For `from_config`."""
        return {**super().get_config(), "classes": self.classes}


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: numbers of words depend on the words alone."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Words int32 (batch, LENGTH) -> logits (batch, STARS - 1) of more stars than 0, 1, ..."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    words = keras.Input((LENGTH,), dtype="int32", name="words")
    there = ops.cast(words > 0, floatx)[..., np.newaxis]  # (batch, LENGTH, 1)
    x = layers.Embedding(BUCKETS, task.width)(words)
    x = layers.Dropout(task.dropout)(x)
    # A word together with the one before it: "not good".
    x = layers.Conv1D(2 * task.width, 2, padding="causal", activation="gelu")(x)
    each = layers.Dense(1, dtype=floatx, name="opinion")(x)  # (batch, LENGTH, 1)
    # A sum and not a mean: opinions add up.
    score = ops.sum(each * there, axis=1)  # (batch, 1)
    return keras.Model(words, OrderedThresholds(STARS, dtype=floatx, name="thresholds")(score))
'''

STARS_LOSSES = (
    RANK_LOSSES[: RANK_LOSSES.index("def create_losses")]
    + '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; stars and logits give one number per example."""

    def cumulative(stars: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """(batch,), (batch, STARS - 1) -> (batch,): how likely it is above each threshold."""
        above = tf.cast(stars[:, tf.newaxis] > tf.range(logits.shape[1]), logits.dtype)
        each = tf.nn.sigmoid_cross_entropy_with_logits(above, logits)  # (batch, STARS - 1)
        return tf.reduce_sum(each, axis=1)

    return {"main": cumulative}


def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar; their weights have a mean of 1."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


'''
    + RANK_LOSSES[RANK_LOSSES.index("def compute_loss") :].replace(
        "0 for padding, and where there is nothing to rank.", "0 for padding."
    )
)

STARS_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .data import STARS


class QuadraticKappa(keras.metrics.Metric):
    """Agreement beyond chance: 1 for all right, 0 for predictions that ignore the review.

    It keeps the confusion matrix, which adds up over batches and replicas; kappas don't.
    """

    def __init__(self, classes: int) -> None:
        super().__init__(name="kappa")
        self._classes = classes
        self._matrix = self.add_variable((classes, classes), "zeros", name="matrix")

    def update_state(
        self, labels: tf.Tensor, predicted: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add classes int32 (batch,) and (batch,) with weights (batch,)."""
        dtype = self._matrix.dtype
        rows = tf.one_hot(labels, self._classes, dtype=dtype)
        rows *= tf.cast(sample_weight, dtype)[:, tf.newaxis]
        columns = tf.one_hot(predicted, self._classes, dtype=dtype)
        self._matrix.assign_add(tf.matmul(rows, columns, transpose_a=True))

    def result(self) -> tf.Tensor:
        """A scalar; 0 before the first example."""
        matrix = tf.convert_to_tensor(self._matrix)
        places = tf.range(self._classes, dtype=matrix.dtype)
        distance = tf.square(places[:, tf.newaxis] - places)
        by_label, by_prediction = tf.reduce_sum(matrix, axis=1), tf.reduce_sum(matrix, axis=0)
        chance = by_label[:, tf.newaxis] * by_prediction
        chance = tf.math.divide_no_nan(chance, tf.reduce_sum(matrix))
        expected = tf.reduce_sum(distance * chance)
        found = tf.reduce_sum(distance * matrix)
        return tf.math.divide_no_nan(expected - found, expected)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {
        "kappa": QuadraticKappa(STARS),
        "accuracy": keras.metrics.Mean(),
        "stars_off": keras.metrics.Mean(),  # the mean distance
    }
'''

STARS_OPTIMIZER = '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig

LARGEST = 0.1  # of any number in a gradient


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """An optimizer that doesn't clip: `process_gradients` does, after the sum over all replicas."""
    schedule = keras.optimizers.schedules.PolynomialDecay(
        task.learning_rate, decay_steps=steps, end_learning_rate=0.0
    )
    return keras.optimizers.Nadam(schedule)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """Each number cut off at LARGEST, so that a review with many copies moves no word too far."""
    return [tf.clip_by_value(gradient, -LARGEST, LARGEST) for gradient in gradients]
'''

STARS_STEPS = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # words (batch, LENGTH), stars and weights (batch,)


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
    words, stars, weights = batch
    logits = run.model(words, training=training)  # (batch, STARS - 1)
    per_example = run.losses["main"](stars, logits)  # (batch,)
    # The median: as many stars as there are thresholds that it is likelier above than below.
    predicted = tf.reduce_sum(tf.cast(logits > 0, stars.dtype), axis=1)  # (batch,)
    distance = tf.cast(tf.abs(predicted - stars), weights.dtype)
    run.metrics["kappa"].update_state(stars, predicted, weights)
    run.metrics["accuracy"].update_state(tf.cast(distance == 0, weights.dtype), weights)
    run.metrics["stars_off"].update_state(distance, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
'''

STARS_CALLBACKS = '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """None."""
    return []
'''

ORDINAL = change_of(
    name="stars of weighted reviews by ordered thresholds",
    project="blank",
    edits=(
        Edit("config.py", "", STARS_CONFIG),
        Edit("data.py", "", STARS_DATA),
        Edit("model.py", "", STARS_MODEL),
        Edit("losses.py", "", STARS_LOSSES),
        Edit("metrics.py", "", STARS_METRICS),
        Edit("optimizer.py", "", STARS_OPTIMIZER),
        Edit("steps.py", "", STARS_STEPS),
        Edit("pictures.py", "", NO_PICTURES),
        Edit("callbacks.py", "", STARS_CALLBACKS),
    ),
)

# ---------------------------------------------------------------------------------------------
# 16. language_model: tied embeddings, Lion, smoothed targets

TIED = change_of(
    name="tied embeddings trained by lion on smoothed targets",
    project="language_model",
    edits=(
        Edit(
            "config.py",
            "    learning_rate: float = 3e-3  # largest learning rate; it rises first, then decays to 0\n",
            "    smoothing: float = 0.05  # share of each training target that goes to all tokens alike\n"
            "    # largest learning rate; it rises first, then decays to 0; small, as Lion's steps are all of\n"
            "    # this size\n"
            "    learning_rate: float = 8e-4\n",
        ),
        Edit(
            "config.py",
            "        if not 0 <= self.warmup < 1:\n",
            "        if not 0 <= self.smoothing < 1:\n"
            '            raise ValueError(f"--smoothing is {self.smoothing}; it must be in [0, 1).")\n'
            "        if not 0 <= self.warmup < 1:\n",
        ),
        Edit(
            "model.py",
            "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)\n",
            """    # The same matrix gives the vectors of tokens and the logits (Press & Wolf, 2017).
    embedding = layers.ReversibleEmbedding(
        TOKENS, task.width, reverse_dtype=keras.config.floatx(), name="tokens_and_logits"
    )
    x = embedding(tokens)  # (batch, T, width)
""",
        ),
        Edit(
            "model.py",
            """    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(tokens, logits)
""",
            """    return keras.Model(tokens, embedding(x, reverse=True))
""",
        ),
        Edit(
            "losses.py",
            "from typing import Any\n",
            "from collections.abc import Callable\nfrom typing import Any\n",
        ),
        Edit(
            "losses.py",
            '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (targets, logits) -> one number per token."""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
''',
            '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (targets, logits) -> one number per token."""
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def smoothed(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Cross-entropy with a target of which a share goes to all tokens alike."""
        of_all = -tf.reduce_mean(tf.nn.log_softmax(logits), axis=-1)  # (batch, T)
        return (1 - task.smoothing) * entropy(targets, logits) + task.smoothing * of_all

    return {"train": smoothed, "evaluation": entropy}
''',
        ),
        Edit(
            "optimizer.py",
            "    return keras.optimizers.Adam(schedule)\n",
            """    optimizer = keras.optimizers.Lion(schedule, beta_1=0.95, beta_2=0.98, weight_decay=0.05)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer
""",
        ),
        Edit(
            "optimizer.py",
            "# default: Adam, its learning rate warmed up,",
            "# default: Lion, its learning rate warmed up,",
        ),
        Edit("steps.py", 'run.losses["main"]', 'run.losses["train"]', "train_step"),
        Edit("steps.py", 'run.losses["main"]', 'run.losses["evaluation"]', "validation_step"),
        Edit("steps.py", 'run.losses["main"]', 'run.losses["evaluation"]', "test_step"),
    ),
)

TASKS: tuple[Change, ...] = (
    LONG_TAIL,
    VIEWS,
    EXPERTS,
    QUANTILES,
    RECENT,
    BOOTSTRAP,
    DEVIATIONS,
    CROPS,
    VICREG,
    BITS,
    UNFREEZE,
    SPECTRAL,
    CODEBOOK,
    RANKING,
    ORDINAL,
    TIED,
)
FAULTS: tuple[Fault, ...] = ()
