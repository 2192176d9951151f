"""Correct tasks of an examiner who had not seen `check`."""

from __future__ import annotations

from textwrap import dedent

from .edits import Change, Edit, Fault
from .unusual import change_of


def text(source: str) -> str:
    """A text without the indentation of its lines."""
    return dedent(source).strip("\n") + "\n"


def whole(file: str, source: str) -> Edit:
    """A file written anew."""
    return Edit(file, "", text(source))


def function(file: str, name: str, source: str) -> Edit:
    """A function written anew."""
    return Edit(file, "", text(source), name)


STEPS_HEAD = '''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

'''
STEPS_END = """

TRAIN_STEPS = (train_step,)  # called in this order on the same batch
TERMS: tuple[str, ...] = {terms}  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = {interact}
"""


def steps(source: str, terms: str = "()", interact: str = "False") -> Edit:
    """task/steps.py written anew."""
    end = STEPS_END.format(terms=terms, interact=interact)
    return Edit("steps.py", "", STEPS_HEAD.lstrip("\n") + text(source) + end)


EVIDENTIAL = change_of(
    name="evidential classifier with annealed divergence",
    project="image_classification",
    edits=(
        Edit(
            "model.py",
            """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
""",
            """    floatx = keras.config.floatx()
    evidence = layers.Dense(CLASSES, activation="softplus", dtype=floatx, name="evidence")(x)
    # The log of the Dirichlet's parameters, 1 + evidence: its softmax is the Dirichlet's mean, so
    # what reads logits (pictures, `predict`) reads these too.
    return keras.Model(images, keras.ops.log1p(evidence))
""",
        ),
        Edit("model.py", "-> logits float32 (batch, classes).", "-> log of Dirichlet parameters."),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Any]:
                """The parts of the evidential loss (Sensoy et al., 2018), each (batch,)."""

                def error(labels: tf.Tensor, log_alpha: tf.Tensor) -> tf.Tensor:
                    """The expected squared error of probabilities drawn from the Dirichlet."""
                    alpha = tf.exp(log_alpha)  # (batch, classes), at least 1
                    strength = tf.reduce_sum(alpha, axis=1, keepdims=True)
                    mean = alpha / strength
                    target = tf.one_hot(labels, alpha.shape[1], dtype=alpha.dtype)
                    variance = mean * (1 - mean) / (strength + 1)
                    return tf.reduce_sum(tf.square(target - mean) + variance, axis=1)

                def divergence(labels: tf.Tensor, log_alpha: tf.Tensor) -> tf.Tensor:
                    """From the Dirichlet without the evidence for the right class to the uniform one."""
                    alpha = tf.exp(log_alpha)
                    target = tf.one_hot(labels, alpha.shape[1], dtype=alpha.dtype)
                    alpha = target + (1 - target) * alpha
                    strength = tf.reduce_sum(alpha, axis=1)
                    expected = tf.math.digamma(alpha) - tf.math.digamma(strength)[:, tf.newaxis]
                    uniform = tf.math.lgamma(tf.constant(float(alpha.shape[1]), alpha.dtype))
                    return (
                        tf.math.lgamma(strength)
                        - uniform
                        - tf.reduce_sum(tf.math.lgamma(alpha), axis=1)
                        + tf.reduce_sum((alpha - 1) * expected, axis=1)
                    )

                return {"error": error, "divergence": divergence}
            ''',
        ),
        Edit(
            "metrics.py",
            '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            """{
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "uncertainty": keras.metrics.Mean(),
    }""",
        ),
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss

            ANNEALED = 250  # steps in which the divergence gets its full weight
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """Little weight on the divergence at first, or no evidence would ever be gathered."""
                return _step(run, batch, replica, training=True)


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The divergence has its full weight, so that epochs can be compared."""
                return _step(run, batch, replica, training=False)


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return _step(run, batch, replica, training=False)


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                images, labels, weights = batch
                log_alpha = run.model(images, training=training)  # (batch, classes)
                error = run.losses["error"](labels, log_alpha)  # (batch,)
                divergence = run.losses["divergence"](labels, log_alpha)  # (batch,)
                factor = tf.ones((), error.dtype)
                if training:
                    factor = tf.minimum(tf.cast(replica.step, error.dtype) / ANNEALED, 1.0)
                run.metrics["accuracy"].update_state(labels, log_alpha, weights)
                # classes / strength: 1 without any evidence
                classes = tf.cast(log_alpha.shape[1], log_alpha.dtype)
                uncertainty = classes / tf.reduce_sum(tf.exp(log_alpha), axis=1)
                run.metrics["uncertainty"].update_state(uncertainty, weights)
                per_example = error + factor * divergence
                return {"main": compute_loss(per_example, weights, run.model, replica)}
            '''
        ),
    ),
)

CTC = change_of(
    name="ctc reading of strips of digits",
    project="image_classification",
    edits=(
        Edit(
            "config.py",
            'monitor: str = "validation_accuracy"',
            'monitor: str = "validation_strip_accuracy"',
        ),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels\n",
            """Arrays = tuple[np.ndarray, np.ndarray]  # images and labels
FEWEST, MOST = 2, 5  # digits of a strip
GAP = 2  # most empty columns between two of them
STRIPS = {"train": 1_536, "validation": 288, "test": 384}  # each from images of its own split
NOTHING = -1  # label after the last digit
""",
        ),
        function(
            "data.py",
            "create_datasets",
            '''
            def create_datasets(task: TaskConfig) -> dict[str, Any]:
                """Strips of digits: images float32 (n, h, width, 1) in [0, 1], labels int64 (n, MOST).

                Raises:
                    UsageError: the images are not on this machine and can't be downloaded.
                """
                splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
                return {
                    split: _strips(images.astype("float32"), labels.astype("int64"), STRIPS[split], seed)
                    for seed, (split, (images, labels)) in enumerate(splits.items())
                }


            def _strips(images: np.ndarray, labels: np.ndarray, strips: int, seed: int) -> Arrays:
                """From left to right FEWEST to MOST images with gaps at random."""
                random = np.random.default_rng(seed)
                height, width = images.shape[1:]
                pictures = np.zeros((strips, height, MOST * (width + GAP), 1), "float32")
                texts = np.full((strips, MOST), NOTHING, "int64")
                for picture, text in zip(pictures, texts, strict=True):
                    left = 0
                    for place in range(random.integers(FEWEST, MOST + 1)):
                        which = random.integers(len(images))
                        picture[:, left : left + width, 0] = images[which]
                        text[place] = labels[which]
                        left += width + random.integers(GAP + 1)
                return pictures, texts
            ''',
        ),
        Edit(
            "model.py",
            """        x = layers.MaxPooling2D()(x)  # (batch, h/2, w/2, filters), then (batch, h/4, w/4, filters)
    x = layers.Flatten()(x)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dropout(task.dropout)(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
""",
            '''        # Half the width is kept, as each digit needs some frames.
        x = layers.MaxPooling2D((2, 2) if filters == 32 else (2, 1))(x)
    x = layers.Permute((2, 1, 3))(x)  # (batch, frames, h/4, filters)
    x = layers.Reshape((x.shape[1], x.shape[2] * x.shape[3]))(x)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Conv1D(128, 5, padding="same", activation="relu")(x)  # (batch, frames, 128)
    x = layers.Dropout(task.dropout)(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(CLASSES + 1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)


def read(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The likeliest path of (batch, frames, CLASSES + 1), without repeats and then without blanks.

    Returns:
        Digits int64 (batch, MOST), NOTHING after the last one; how many there are, int32 (batch,).
    """
    path = tf.argmax(logits, axis=-1)  # (batch, frames)
    before = tf.pad(path[:, :-1], [[0, 0], [1, 0]], constant_values=CLASSES)
    starts = (path != CLASSES) & (path != before)
    places = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1
    here = starts[..., tf.newaxis] & (places[..., tf.newaxis] == tf.range(MOST))
    digits = tf.reduce_max(tf.where(here, path[..., tf.newaxis], NOTHING), axis=1)
    return digits, tf.math.count_nonzero(starts, axis=1, dtype=tf.int32)
''',
        ),
        Edit("model.py", "import numpy as np\n", "import numpy as np\nimport tensorflow as tf\n"),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import MOST, NOTHING\n",
        ),
        Edit("model.py", "CLASSES = 10\n", "CLASSES = 10  # after them comes CTC's blank\n"),
        Edit(
            "model.py",
            "-> logits float32 (batch, classes).",
            "-> logits float32 (batch, frames, classes + 1).",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Any]:
                """Connectionist temporal classification (Graves et al., 2006), (batch,)."""

                def ctc(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
                    """Minus the log probability of the digits, over all ways to place them."""
                    frames = tf.fill(tf.shape(logits)[:1], logits.shape[1])
                    return tf.nn.ctc_loss(
                        labels=tf.cast(tf.maximum(labels, 0), tf.int32),  # those past the length don't count
                        logits=logits,
                        label_length=tf.math.count_nonzero(labels >= 0, axis=1, dtype=tf.int32),
                        logit_length=frames,
                        logits_time_major=False,
                        blank_index=logits.shape[-1] - 1,
                    )

                return {"main": ctc}
            ''',
        ),
        Edit(
            "metrics.py",
            'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            'return {"strip_accuracy": keras.metrics.Mean(), "length_accuracy": keras.metrics.Mean()}',
        ),
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss
            from .model import read

            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch, MOST), weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contribution to the training loss."""
                return _step(run, batch, replica, training=True)


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same without dropout."""
                return _step(run, batch, replica, training=False)


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return _step(run, batch, replica, training=False)


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                images, labels, weights = batch
                logits = run.model(images, training=training)  # (batch, frames, classes + 1)
                per_example = run.losses["main"](labels, logits)  # (batch,)
                digits, number = read(logits)
                same_length = number == tf.math.count_nonzero(labels >= 0, axis=1, dtype=tf.int32)
                is_right = same_length & tf.reduce_all(digits == labels, axis=1)
                run.metrics["strip_accuracy"].update_state(is_right, weights)
                run.metrics["length_accuracy"].update_state(same_length, weights)
                return {"main": compute_loss(per_example, weights, run.model, replica)}
            '''
        ),
        function(
            "pictures.py",
            "draw_predictions",
            '''
            def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
                """Draw the first strips of the test, if there are any, and what is read in them."""
                split = drawn_split(datasets)
                images, labels, *_ = first_examples(datasets[split], 2 * ROWS)
                digits, _ = read(tf.convert_to_tensor(predict_in_parts(run.model, images)))
                figure = Figure(figsize=(8, 5), layout="constrained")
                axes = figure.subplots()
                axes.set_title(f"{split} strips, and what is read in them")
                captions = ["".join(str(d) for d in row if d >= 0) or "nothing" for row in np.asarray(digits)]
                draw_images(axes, images, 2, captions, **INK)
                save(figure, file)
            ''',
        ),
        Edit(
            "pictures.py",
            "from .data import create_augment\n",
            "from .data import create_augment\nfrom .model import read\n",
        ),
        function(
            "predictions.py",
            "describe",
            '''
            def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
                """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
                digits, _ = read(tf.convert_to_tensor(outputs))
                return {"text": ["".join(str(d) for d in row if d >= 0) for row in np.asarray(digits)]}
            ''',
        ),
        Edit(
            "predictions.py",
            "from ..engine.errors import UsageError\n",
            "from ..engine.errors import UsageError\nfrom .model import read\n",
        ),
    ),
)

MEAN_TEACHER = change_of(
    name="mean teacher for a sixth of the labels",
    project="image_classification",
    edits=(
        function(
            "data.py",
            "create_datasets",
            '''
            def create_datasets(task: TaskConfig) -> dict[str, Any]:
                """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).

                In training a label is known of every sixth image only, -1 stands for the others.

                Raises:
                    UsageError: the images are not on this machine and can't be downloaded.
                """
                splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
                datasets = {
                    split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
                    for split, (images, labels) in splits.items()
                }
                images, labels = datasets["train"]
                is_known = np.arange(len(labels)) % 6 == 0
                datasets["train"] = images, np.where(is_known, labels, -1)
                return datasets
            ''',
        ),
        function(
            "model.py",
            "create_model",
            '''
            def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
                """A student that is trained, and a teacher whose weights are a moving average of its own."""
                student = _create_cnn(task, adapted, "student")
                teacher = _create_cnn(task, adapted, "teacher")
                teacher.set_weights(student.get_weights())
                teacher.trainable = False
                return {"student": student, "teacher": teacher}


            def _create_cnn(task: TaskConfig, adapted: dict[str, np.ndarray], name: str) -> keras.Model:
                """Images float (batch, h, w, 1) -> logits float32 (batch, classes)."""
                layers = keras.layers
                l2 = keras.regularizers.L2(task.l2)
                images = keras.Input(adapted["shape"], name="images")
                x = images
                for filters in (32, 64):
                    x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
                    x = layers.LayerNormalization()(x)  # has no moving statistics to average
                    x = layers.Activation("relu")(x)
                    x = layers.MaxPooling2D()(x)
                x = layers.Flatten()(x)
                x = layers.Dropout(task.dropout)(x)
                x = layers.Dense(128, activation="relu")(x)
                x = layers.Dropout(task.dropout)(x)
                logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
                return keras.Model(images, logits, name=name)
            ''',
        ),
        function(
            "losses.py",
            "count",
            '''
            def count(batch: Any) -> dict[str, tf.Tensor]:
                """How many examples have a label, and how many there are; int32 scalars."""
                weights = {"supervised": weights_of_labels(batch), "consistency": batch[-1]}
                return {name: tf.math.count_nonzero(w, dtype=tf.int32) for name, w in weights.items()}


            def weights_of_labels(batch: Any) -> tf.Tensor:
                """The weight of each example's label, float (batch,): 0 where it isn't known."""
                _, labels, weights = batch
                return weights * tf.cast(labels >= 0, weights.dtype)
            ''',
        ),
        function(
            "losses.py",
            "compute_loss",
            '''
            def compute_loss(
                name: str, per_example: tf.Tensor, weights: tf.Tensor, replica: Replica
            ) -> tf.Tensor:
                """This replica's part of a term, a float scalar; the sum over all replicas is the term.

                Args:
                    name: of the term, "supervised" or "consistency".
                    per_example: float (batch,).
                    weights: float (batch,), 0 for what doesn't count in this term.
                    replica: `replica.global_count` is `count` summed over all replicas.
                """
                return tf.nn.compute_average_loss(
                    per_example, sample_weight=weights, global_batch_size=replica.global_count[name]
                )
            ''',
        ),
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss, weights_of_labels

            DECAY = 0.98  # of the teacher's weights, for each step
            CONSISTENCY, RAMP = 5.0, 150  # largest factor of the consistency; steps until it has that
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """Trains the student on labels, and to say what the teacher says of each image."""
                images, labels, weights = batch
                student, teacher = run.models["student"], run.models["teacher"]
                logits = student(images, training=True)  # (batch, classes)
                # With dropout of its own (Tarvainen & Valpola, 2017).
                taught = tf.stop_gradient(teacher(images, training=True))
                known = weights_of_labels(batch)
                cross_entropy = run.losses["main"](tf.maximum(labels, 0), logits)  # (batch,)
                supervised = compute_loss("supervised", cross_entropy, known, replica)
                difference = tf.nn.softmax(logits) - tf.nn.softmax(taught)
                squares = tf.reduce_sum(tf.square(difference), axis=1)  # (batch,)
                consistency = compute_loss("consistency", squares, weights, replica)
                run.metrics["accuracy"].update_state(tf.maximum(labels, 0), logits, known)
                _follow(teacher, student, replica)
                ramp = tf.minimum(tf.cast(replica.step, squares.dtype) / RAMP, 1.0)
                factor = CONSISTENCY * tf.exp(-5.0 * tf.square(1.0 - ramp))
                loss = supervised + factor * consistency
                loss += tf.nn.scale_regularization_loss(replica.regularization(student))
                return {"main": loss, "supervised": supervised, "consistency": consistency}


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """How good the teacher is, which is the model to use; there every label is known."""
                images, labels, weights = batch
                taught = run.models["teacher"](images, training=False)  # (batch, classes)
                logits = run.models["student"](images, training=False)
                cross_entropy = run.losses["main"](labels, taught)  # (batch,)
                supervised = compute_loss("supervised", cross_entropy, weights, replica)
                difference = tf.nn.softmax(logits) - tf.nn.softmax(taught)
                squares = tf.reduce_sum(tf.square(difference), axis=1)  # (batch,)
                consistency = compute_loss("consistency", squares, weights, replica)
                run.metrics["accuracy"].update_state(labels, taught, weights)
                return {"main": supervised, "supervised": supervised, "consistency": consistency}


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return validation_step(run, batch, replica)


            def _follow(teacher, student, replica: Replica) -> None:
                """Move the teacher's weights towards the student's, which are the same on all replicas."""
                step = tf.cast(replica.step, tf.float32)
                decay = tf.minimum(DECAY, (1.0 + step) / (10.0 + step))  # shorter memory at first
                decay **= 1.0 / replica.num_microbatches  # each micro-batch comes here
                for average, weight in zip(teacher.weights, student.weights, strict=True):
                    rate = tf.cast(1.0 - decay, average.dtype)
                    average.assign(average + rate * (weight - average))
            ''',
            terms='("supervised", "consistency")',
        ),
        Edit(
            "pictures.py",
            "predict_in_parts(run.model, images)",
            'predict_in_parts(run.models["teacher"], images)',
        ),
    ),
)

AGE_GROUPS = change_of(
    name="leave one age group out with beta nll",
    project="tabular_regression",
    edits=(
        Edit(
            "config.py",
            "fold: int = 0  # fifth of the rows that is the test data, 0 to 4",
            "fold: int = 2  # age group that is the test data, 0 (youngest) to 4",
        ),
        Edit("data.py", "VALIDATION = 8  # every eighth row that isn't test data\n", ""),
        Edit("data.py", "MASK_SEED, SPLIT_SEED = 0, 0\n", "MASK_SEED = 0\n"),
        Edit(
            "data.py",
            """    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))
    is_test = np.arange(len(data)) % FOLDS == task.fold
    test, rest = order[is_test], order[~is_test]
    is_validation = np.arange(len(rest)) % VALIDATION == 0
""",
            """    # Whole age groups are held out, one for the test and the next one for validation: how good is
    # the model for patients of an age that it has never seen?
    age = data[:, columns.index("age")]
    group = np.digitize(age, np.quantile(age, np.arange(1, FOLDS) / FOLDS))  # 0 to FOLDS - 1
    held_out = {"test": task.fold, "validation": (task.fold + 1) % FOLDS}
    (test,), (validation,) = (np.nonzero(group == held_out[s]) for s in ("test", "validation"))
    (train,) = np.nonzero(~np.isin(group, list(held_out.values())))
""",
        ),
        Edit(
            "data.py",
            "    inputs, labels = examples(rest[~is_validation])\n",
            "    inputs, labels = examples(train)\n",
        ),
        Edit(
            "data.py",
            '"validation": examples(rest[is_validation]),',
            '"validation": examples(validation),',
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
""",
            """    x = layers.Concatenate()([x, hidden])
    spread = layers.Dense(1, kernel_initializer="zeros", dtype=floatx)(x)
    # Within e^-4 and e^4 of the labels' variance, so that no step can make it overflow.
    log_variance = 4.0 * ops.tanh(spread / 4.0)  # (batch, 1), of standardized labels
    x = layers.Dense(1, dtype=floatx)(x)  # (batch, 1)
""",
        ),
        Edit(
            "model.py",
            "    return keras.Model(inputs, unscale(x))\n",
            "    return keras.Model(inputs, layers.Concatenate(dtype=floatx)([unscale(x), log_variance]))\n",
        ),
        Edit(
            "model.py",
            "-> float32 (batch, 1).",
            "-> float32 (batch, 2).\n\n    Those are a mean in units of the data, and the log of the variance of standardized labels.",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
                """Losses by name; labels (batch, 1) and predictions (batch, 2) give (batch,)."""

                def likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
                    """Minus the log density of standardized labels, but for a constant."""
                    mean, log_variance = tf.unstack(predictions, axis=1)
                    error = (labels[:, 0] - mean) / LABEL_DEVIATION
                    return 0.5 * (log_variance + tf.square(error) * tf.exp(-log_variance))

                def beta_likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
                    """The same times the standard deviation as a constant (Seitzer et al., 2022, beta 0.5).

                    Else examples that are predicted badly would get a large variance and no gradient.
                    """
                    deviation = tf.stop_gradient(tf.exp(0.5 * predictions[:, 1]))
                    return deviation * likelihood(labels, predictions)

                return {"train": beta_likelihood, "main": likelihood}
            ''',
        ),
        Edit(
            "metrics.py",
            'return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}',
            'return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, "coverage_90": keras.metrics.Mean()}',
        ),
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import LABEL_DEVIATION, compute_loss

            Z_90 = 1.645  # standard deviations from the mean to both ends of a 90% interval
            Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, labels (batch, 1), weights


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contribution to the training loss."""
                return _step(run, batch, replica, training=True)


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The plain likelihood, a proper score, without dropout."""
                return _step(run, batch, replica, training=False)


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return _step(run, batch, replica, training=False)


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                inputs, labels, weights = batch
                predictions = run.model(inputs, training=training)  # (batch, 2)
                per_example = run.losses["train" if training else "main"](labels, predictions)  # (batch,)
                mean, log_variance = predictions[:, :1], predictions[:, 1:]
                run.metrics["mae"].update_state(labels, mean, weights)
                run.metrics["r2"].update_state(labels, mean, weights)
                half = Z_90 * LABEL_DEVIATION * tf.exp(0.5 * log_variance)
                run.metrics["coverage_90"].update_state((tf.abs(labels - mean) <= half)[:, 0], weights)
                return {"main": compute_loss(per_example, weights, run.model, replica)}
            '''
        ),
    ),
)

GAMMA = change_of(
    name="gamma deviance with values removed in training",
    project="tabular_regression",
    edits=(
        Edit(
            "config.py",
            "    dropout: float = 0.3",
            "    removed: float = 0.1  # fraction of the numeric values that training takes away\n    dropout: float = 0.3",
        ),
        Edit(
            "config.py",
            "        if not 0 <= self.dropout < 1:",
            '        if not 0 <= self.removed < 1:\n            raise ValueError(f"--removed is {self.removed}; it must be at least 0 and less than 1.")\n        if not 0 <= self.dropout < 1:',
        ),
        function(
            "data.py",
            "create_augment",
            '''
            def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
                """A function (global batch, seed) -> global batch that tf.data runs; None for no augmentation.

                It takes values away at random, so that the model learns to do without any of them, also in
                columns of which hardly any value is missing.
                """
                if not task.removed:
                    return None

                def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
                    inputs, labels, weights = batch
                    numeric = inputs["numeric"]  # (batch, columns)
                    gone = tf.random.stateless_uniform(numeric.shape, seed) < task.removed
                    numeric = tf.where(gone, tf.constant(np.nan, numeric.dtype), numeric)
                    return {**inputs, "numeric": numeric}, labels, weights

                return per_example(augment)
            ''',
        ),
        Edit(
            "data.py",
            "import numpy as np\n\nfrom .config",
            "import numpy as np\nimport tensorflow as tf\n\nfrom ..engine.batches import per_example\nfrom .config",
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
            """    # Zeros: the first prediction is the mean of the labels for everyone.
    last = layers.Dense(1, kernel_initializer="zeros", dtype=floatx)
    x = last(layers.Concatenate()([x, hidden]))  # (batch, 1)
    # A log link: predictions are positive, and effects multiply.
    return keras.Model(inputs, ops.exp(x) * float(adapted["label_mean"][0]))
""",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
                """Losses by name: (labels, predictions) -> one number per example."""

                def gamma_deviance(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
                    """Both float (batch, 1), positive -> float (batch,); 0 if they are equal.

                    That of a gamma distribution, whose standard deviation is proportional to its mean: it
                    depends on labels / predictions only, so it needs no scaling in float16.
                    """
                    ratio = labels / predictions
                    return 2.0 * tf.reduce_mean(ratio - 1.0 - tf.math.log(ratio), axis=-1)

                return {"main": gamma_deviance}
            ''',
        ),
        Edit("losses.py", "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n\n\n", "\n"),
        Edit(
            "optimizer.py",
            "    return keras.optimizers.AdamW(schedule, weight_decay=task.weight_decay)\n",
            """    optimizer = keras.optimizers.AdamW(schedule, weight_decay=task.weight_decay)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    return optimizer
""",
        ),
    ),
)

TIED = change_of(
    name="tied embeddings with z loss and warmup stable decay",
    project="language_model",
    edits=(
        Edit(
            "model.py",
            "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)\n",
            """    # The same table reads tokens and writes them (Press & Wolf, 2017); its logits are in full
    # precision even under --precision float16, where a loss in float16 could overflow.
    table = layers.ReversibleEmbedding(TOKENS, task.width, reverse_dtype=keras.config.floatx())
    x = table(tokens)  # (batch, T, width)
""",
        ),
        Edit(
            "model.py",
            """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(tokens, logits)
""",
            """    return keras.Model(tokens, table(x, reverse=True))
""",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Any]:
                """Losses by name: (targets, logits) -> one number per token."""

                def smoothed(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
                    """Cross-entropy with smoothed labels, and the z-loss of PaLM, float (batch, T).

                    The latter keeps the normalizer close to 1, so that logits can't drift.
                    """
                    normalizer = tf.reduce_logsumexp(logits, axis=-1)  # (batch, T)
                    right = tf.gather(logits, targets, axis=-1, batch_dims=2)  # (batch, T)
                    mean = tf.reduce_mean(logits, axis=-1)
                    cross_entropy = normalizer - (1 - SMOOTHING) * right - SMOOTHING * mean
                    return cross_entropy + Z_LOSS * tf.square(normalizer)

                plain = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
                return {"main": plain, "smoothed": smoothed}
            ''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nSMOOTHING, Z_LOSS = 0.05, 1e-4\n",
        ),
        Edit(
            "steps.py",
            '    per_token = run.losses["main"](targets, logits)  # (batch, T)\n',
            '    # Smoothed in training only: evaluation shows the plain cross-entropy.\n    per_token = run.losses["smoothed"](targets, logits)  # (batch, T)\n',
            "train_step",
        ),
        Edit(
            "optimizer.py",
            "# TODO(7):",
            '''@keras.saving.register_keras_serializable("task")
class WarmupStableDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises, stays, and falls to 0 in the last fifth of the run (Hu et al., 2024)."""

    def __init__(self, highest: float, warmup: int, steps: int) -> None:
        self.highest, self.warmup, self.steps = highest, warmup, steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        step = tf.cast(step, keras.config.floatx())
        rising = (step + 1.0) / (self.warmup + 1.0)
        falling = (self.steps - step) / max(1.0, 0.2 * self.steps)
        return self.highest * tf.clip_by_value(tf.minimum(rising, falling), 0.0, 1.0)

    def get_config(self) -> dict[str, float]:
        return {"highest": self.highest, "warmup": self.warmup, "steps": self.steps}


# TODO(7):''',
        ),
        function(
            "optimizer.py",
            "create_optimizer",
            '''
            def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
                """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

                Args:
                    task: the flags of the task.
                    steps: train steps in the whole run, for schedules.
                """
                schedule = WarmupStableDecay(task.learning_rate, int(task.warmup * steps), steps)
                return keras.optimizers.Adam(schedule, beta_2=0.98)
            ''',
        ),
    ),
)

EXPERTS = change_of(
    name="mixture of experts balanced within each line",
    project="language_model",
    edits=(
        Edit(
            "config.py",
            "    dropout: float = 0.0",
            "    experts: int = 4  # feed-forward networks in a layer, of which each token uses two\n    dropout: float = 0.0",
        ),
        Edit(
            "config.py",
            "        if not 0 <= self.dropout < 1:",
            '        if self.experts < 2:\n            raise ValueError(f"--experts is {self.experts}; it must be at least 2.")\n        if not 0 <= self.dropout < 1:',
        ),
        Edit(
            "model.py",
            "    for _ in range(task.layers):\n",
            "    routed = []  # by each layer, (batch, T, experts)\n    for _ in range(task.layers):\n",
        ),
        Edit(
            "model.py",
            """        y = layers.Dense(4 * task.width, activation="gelu")(y)
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
""",
            """        y, probabilities = _mixture(y, task)
        routed.append(probabilities)
        x = x + layers.Dropout(task.dropout)(y)
""",
        ),
        Edit(
            "model.py",
            """    return keras.Model(tokens, logits)
""",
            '''    routed = keras.ops.stack(routed, axis=2)  # (batch, T, layers, experts)
    return keras.Model(tokens, {"logits": logits, "routed": routed})


def _mixture(y: keras.KerasTensor, task: TaskConfig) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """The two likeliest experts of each token, weighted; (batch, T, width) and probabilities."""
    layers, ops, experts = keras.layers, keras.ops, task.experts
    floatx = keras.config.floatx()  # a router needs full precision
    router = layers.Dense(experts, use_bias=False, activation="softmax", dtype=floatx)
    probabilities = router(y)  # (batch, T, experts)
    second = ops.top_k(probabilities, 2)[0][..., 1:]
    gates = ops.where(probabilities >= second, probabilities, 0.0)
    gates = gates / ops.sum(gates, axis=-1, keepdims=True)
    # All experts are computed, as they are small; gates of zero leave out most of them.
    hidden = layers.EinsumDense(
        "btd,edh->bteh", (None, experts, 2 * task.width), activation="gelu", bias_axes="eh"
    )(y)
    given = layers.EinsumDense(
        "bteh,ehd->bted", (None, experts, task.width), bias_axes="ed"
    )(hidden)
    gates = ops.cast(gates, given.dtype)
    return ops.sum(given * ops.expand_dims(gates, -1), axis=2), probabilities
''',
        ),
        Edit(
            "model.py",
            "        logits = model(lines[:, :-1], training=False)  # (batch, T, TOKENS)",
            '        logits = model(lines[:, :-1], training=False)["logits"]  # (batch, T, TOKENS)',
        ),
        Edit(
            "model.py",
            """        model: tokens (batch, T) -> logits (batch, T, TOKENS).""",
            """        model: tokens (batch, T) -> {"logits": (batch, T, TOKENS), ...}.""",
        ),
        Edit(
            "model.py",
            "-> logits float32 (batch, T, TOKENS) of the next token.",
            "-> logits float32 (batch, T, TOKENS) and routes.",
        ),
        function(
            "losses.py",
            "count",
            '''
            def count(batch: Any) -> dict[str, tf.Tensor]:
                """How many tokens of answers there are, and how many lines; int32 scalars."""
                weights = batch[-1]  # (batch, T), 0 for prompts and padding
                return {
                    "main": tf.math.count_nonzero(weights, dtype=tf.int32),
                    "balance": tf.math.count_nonzero(weights_of_lines(weights), dtype=tf.int32),
                }


            def weights_of_lines(weights: tf.Tensor) -> tf.Tensor:
                """1 for a line, 0 for padding: float (batch, T) -> float (batch,)."""
                return tf.cast(tf.reduce_any(weights != 0, axis=1), weights.dtype)


            def imbalance(routed: tf.Tensor, tokens: tf.Tensor) -> tf.Tensor:
                """How unevenly the tokens of each line use the experts, float (batch,): 1 if evenly.

                Within lines, as in DeepSeek-V3, and not within batches (Fedus et al., 2021), so that it
                depends neither on the other lines nor on how many replicas share a batch.

                Args:
                    routed: float (batch, T, layers, experts), probabilities.
                    tokens: int32 (batch, T), 0 for padding, which doesn't count.
                """
                experts = routed.shape[-1]
                there = tf.cast(tokens != 0, routed.dtype)[:, :, tf.newaxis, tf.newaxis]
                length = tf.maximum(tf.reduce_sum(there, axis=1), 1.0)  # (batch, 1, 1)
                second = tf.math.top_k(routed, 2).values[..., 1:]
                used = tf.cast(routed >= second, routed.dtype) / 2.0
                fraction = tf.reduce_sum(there * used, axis=1) / length  # (batch, layers, experts)
                mean = tf.reduce_sum(there * routed, axis=1) / length
                return experts * tf.reduce_mean(tf.reduce_sum(fraction * mean, axis=-1), axis=-1)
            ''',
        ),
        Edit(
            "losses.py",
            "global_batch_size=replica.global_count\n",
            'global_batch_size=replica.global_count["main"]\n',
        ),
        Edit(
            "losses.py",
            "`replica.global_count` is `count` summed over all replicas.",
            '`replica.global_count` is `count` summed over all replicas, of which this takes "main".',
        ),
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss, imbalance, weights_of_lines
            from .model import complete

            BALANCE = 0.02  # factor of the imbalance in the training loss
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, targets and weights, each (batch, T)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """Cross-entropy, and a little for experts that get more tokens than others."""
                logits, losses = _step(run, batch, replica, training=True)
                _update(run, batch, logits, tf.argmax(logits, axis=-1, output_type=tf.int32))
                return losses | {"main": losses["main"] + BALANCE * losses["balance"]}


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """Cross-entropy alone; a token is right if it is the likeliest after the right ones."""
                logits, losses = _step(run, batch, replica, training=False)
                _update(run, batch, logits, tf.argmax(logits, axis=-1, output_type=tf.int32))
                return losses


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """Lets the model write every answer, given the prompt alone."""
                tokens, _, weights = batch
                logits, losses = _step(run, batch, replica, training=False)
                _update(run, batch, logits, complete(run.model, tokens, weights))
                return losses


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool):
                tokens, targets, weights = batch
                outputs = run.model(tokens, training=training)
                logits = outputs["logits"]  # (batch, T, TOKENS)
                per_token = run.losses["main"](targets, logits)  # (batch, T)
                balance = tf.nn.compute_average_loss(
                    imbalance(outputs["routed"], tokens),
                    sample_weight=weights_of_lines(weights),
                    global_batch_size=replica.global_count["balance"],
                )
                main = compute_loss(per_token, weights, run.model, replica)
                return logits, {"main": main, "balance": balance}


            def _update(run: Run, batch: Batch, logits: tf.Tensor, written: tf.Tensor) -> None:
                _, targets, weights = batch
                run.metrics["token_accuracy"].update_state(targets, logits, weights)
                run.metrics["exact_match"].update_state(targets, written, weights)
            ''',
            terms='("balance",)',
        ),
    ),
)

DICE = change_of(
    name="dice loss and shifted views in the test",
    project="segmentation",
    edits=(
        Edit(
            "losses.py",
            "# TODO(10):",
            '''def dice_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """1 - the soft Dice coefficient of each example, averaged over the classes, float (batch,).

    Of each example by itself, not of the batch, so that it is the same on any number of replicas.
    Ignored pixels don't count. Where a class isn't there, the 1 in both parts of the fraction makes
    its coefficient 1 if nothing is predicted as that class.
    """
    there = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]  # (batch, h, w, 1)
    predicted = there * tf.nn.softmax(logits)  # (batch, h, w, classes)
    # one_hot gives zeros for IGNORED.
    target = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)
    both = tf.reduce_sum(predicted * target, axis=[1, 2])  # (batch, classes)
    either = tf.reduce_sum(predicted + target, axis=[1, 2])
    return 1.0 - tf.reduce_mean((2.0 * both + 1.0) / (either + 1.0), axis=1)


# TODO(10):''',
        ),
        steps('''
            import keras
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import average_over_pixels, compute_loss, dice_loss
            from .metrics import pixel_weights

            FARTHEST = 2  # pixels that a view is shifted by
            SHIFTS = ((0, 0), (-2, 0), (2, 0), (0, -2), (0, 2))  # rows and columns of each view
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch, h, w), weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """Cross-entropy and Dice loss of this replica's part of a batch."""
                return _finish(run, batch, replica, run.model(batch[0], training=True))


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same with the moving averages of batch normalization."""
                return _finish(run, batch, replica, run.model(batch[0], training=False))


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same for the mean prediction of several views of each image."""
                return _finish(run, batch, replica, log_mean_of_views(run.model, batch[0]))


            def log_mean_of_views(model: keras.Model, images: tf.Tensor) -> tf.Tensor:
                """Log probabilities (batch, h, w, classes), each pixel's mean over the views that show it.

                Pooling makes the model see a shifted image a little differently.
                """
                _, height, width, _ = images.shape
                inside = [[0, 0], [FARTHEST, FARTHEST], [FARTHEST, FARTHEST], [0, 0]]
                padded = tf.pad(images, inside)
                total, views = 0.0, 0.0
                for dy, dx in SHIFTS:
                    top, left = FARTHEST + dy, FARTHEST + dx
                    view = padded[:, top : top + height, left : left + width]
                    probabilities = tf.nn.softmax(model(view, training=False))
                    back = [[0, 0], [top, 2 * FARTHEST - top], [left, 2 * FARTHEST - left], [0, 0]]
                    total += tf.pad(probabilities, back)
                    views += tf.pad(tf.ones_like(probabilities[..., :1]), back)
                crop = (slice(None), slice(FARTHEST, -FARTHEST), slice(FARTHEST, -FARTHEST))
                return tf.math.log(total[crop] / views[crop] + 1e-9)


            def _finish(
                run: Run, batch: Batch, replica: Replica, logits: tf.Tensor
            ) -> dict[str, tf.Tensor]:
                _, labels, weights = batch
                per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
                per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)
                per_example += dice_loss(logits, labels)  # (batch,)
                run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
                return {"main": compute_loss(per_example, weights, run.model, replica)}
            '''),
    ),
)

DEEP = change_of(
    name="deep supervision with sgd and polynomial decay",
    project="segmentation",
    edits=(
        Edit(
            "config.py",
            "learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine",
            "learning_rate: float = 0.05  # learning rate at the start; decays to 0 almost linearly",
        ),
        Edit(
            "model.py",
            """        x = _convolve_twice(x, task.width * 2**level)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
""",
            """        x = _convolve_twice(x, task.width * 2**level)
        # Full precision even under --precision float16, where such logits could overflow.
        head = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name=f"logits_{level}")
        logits[f"level_{level}"] = head(x)  # (batch, h / 2^level, w / 2^level, classes)
    return keras.Model(images, logits)
""",
        ),
        Edit(
            "model.py",
            "    for level in reversed(range(LEVELS)):\n",
            "    logits = {}\n    for level in reversed(range(LEVELS)):\n",
        ),
        Edit(
            "model.py",
            "-> logits float32 (batch, h, w, classes).",
            '-> logits at three scales; "level_0" is (batch, h, w, classes).',
        ),
        Edit(
            "pictures.py",
            "predict_in_parts(run.model, images).argmax(axis=-1)",
            'predict_in_parts(run.model, images)["level_0"].argmax(axis=-1)',
        ),
        Edit(
            "predictions.py",
            "np.argmax(outputs, axis=-1)",
            'np.argmax(outputs["level_0"], axis=-1)',
        ),
        steps('''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import average_over_pixels, compute_loss
            from .metrics import pixel_weights

            SHARES = (4 / 7, 2 / 7, 1 / 7)  # of each level in the training loss, full resolution first
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch, h, w), weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The loss at every scale (Lee et al., 2015)."""
                images, labels, weights = batch
                outputs = run.model(images, training=True)
                per_example = tf.add_n(
                    [share * _loss(run, labels, outputs, level) for level, share in enumerate(SHARES)]
                )
                run.metrics["mean_iou"].update_state(
                    labels, outputs["level_0"], pixel_weights(weights, labels)
                )
                return {"main": compute_loss(per_example, weights, run.model, replica)}


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The loss at full resolution alone, as the other heads are there for training only."""
                images, labels, weights = batch
                outputs = run.model(images, training=False)
                per_example = _loss(run, labels, outputs, 0)  # (batch,)
                run.metrics["mean_iou"].update_state(
                    labels, outputs["level_0"], pixel_weights(weights, labels)
                )
                return {"main": compute_loss(per_example, weights, run.model, replica)}


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return validation_step(run, batch, replica)


            def _loss(run: Run, labels: tf.Tensor, outputs: dict[str, tf.Tensor], level: int) -> tf.Tensor:
                """The loss of each example at a scale, float (batch,)."""
                every = 2**level
                labels = labels[:, ::every, ::every]  # a mean of two labels is no label
                per_pixel = run.losses["main"](labels, outputs[f"level_{level}"])
                return average_over_pixels(per_pixel, labels, run.task.foreground_weight)
            '''),
        function(
            "optimizer.py",
            "create_optimizer",
            '''
            def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
                """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

                Args:
                    task: the flags of the task.
                    steps: train steps in the whole run, for schedules.
                """
                schedule = keras.optimizers.schedules.PolynomialDecay(
                    task.learning_rate, decay_steps=steps, end_learning_rate=0.0, power=0.9
                )
                return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
            ''',
        ),
    ),
)

BARLOW = change_of(
    name="barlow twins over all replicas",
    project="contrastive",
    edits=(
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run

            OFF_DIAGONAL = 0.02  # factor of the squared correlations between different features
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, the same with noise, weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contribution to the training loss."""
                return _step(run, batch, replica, training=True)


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same without dropout."""
                return _step(run, batch, replica, training=False)


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return _step(run, batch, replica, training=False)


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                """Makes the correlation of both views' features the identity (Zbontar et al., 2021)."""
                clean, noisy, weights = batch
                clean = run.model(clean, training=training)  # (rows, features)
                noisy = run.model(noisy, training=training)
                _find_partners(run, clean, noisy, weights, replica)
                # A correlation isn't a sum over examples: it needs the rows of all replicas.
                there = tf.cast(replica.all_gather(weights) > 0, clean.dtype)[:, tf.newaxis]
                number = tf.reduce_sum(there)
                left = _standardize(replica.all_gather(clean), there, number)
                right = _standardize(replica.all_gather(noisy), there, number)
                correlation = tf.matmul(left, right, transpose_a=True) / number  # (features, features)
                diagonal = tf.linalg.diag_part(correlation)
                rest = tf.reduce_sum(tf.square(correlation)) - tf.reduce_sum(tf.square(diagonal))
                loss = tf.reduce_sum(tf.square(1.0 - diagonal)) + OFF_DIAGONAL * rest
                # Each replica has the whole loss, and the engine adds them.
                loss /= replica.num_replicas
                regularization = tf.nn.scale_regularization_loss(replica.regularization(run.model))
                return {"main": loss + regularization}


            def _standardize(features: tf.Tensor, there: tf.Tensor, number: tf.Tensor) -> tf.Tensor:
                """Mean 0 and variance 1 of each feature over the rows that are there; 0 elsewhere."""
                mean = tf.reduce_sum(there * features, axis=0) / number
                centered = there * (features - mean)
                variance = tf.reduce_sum(tf.square(centered), axis=0) / number
                return centered * tf.math.rsqrt(variance + 1e-5)


            def _find_partners(
                run: Run, clean: tf.Tensor, noisy: tf.Tensor, weights: tf.Tensor, replica: Replica
            ) -> None:
                """Adds whether the most similar noisy image is that of the image itself to the accuracy."""
                clean, noisy = (tf.math.l2_normalize(tf.stop_gradient(x), axis=1) for x in (clean, noisy))
                similarity = tf.matmul(clean, replica.all_gather(noisy), transpose_b=True)
                similarity = tf.where(replica.all_gather(weights) > 0, similarity, -2.0)
                rows = clean.shape[0]
                own = replica.index * rows + tf.range(rows)
                run.metrics["accuracy"].update_state(own, similarity, weights)
            ''',
            interact="True",
        ),
        Edit(
            "losses.py",
            "return {}  # the step calls TensorFlow's cross-entropy itself",
            "return {}  # the step's loss isn't one of single examples",
        ),
        function(
            "predictions.py",
            "describe",
            '''
            def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
                """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
                return {"feature": np.asarray(outputs)}
            ''',
        ),
        Edit("predictions.py", "import tensorflow as tf\n", ""),
    ),
)

TRIPLET = change_of(
    name="triplets with all violating negatives and ranks",
    project="contrastive",
    edits=(
        Edit(
            "config.py",
            'monitor: str = "validation_accuracy"',
            'monitor: str = "validation_reciprocal_rank"',
        ),
        Edit(
            "metrics.py",
            'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            'return {"reciprocal_rank": keras.metrics.Mean(), "recall_at_5": keras.metrics.Mean()}',
        ),
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss

            MARGIN = 0.3
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, the same with noise, weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contribution to the training loss."""
                return _step(run, batch, replica, training=True)


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same without dropout."""
                return _step(run, batch, replica, training=False)


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return _step(run, batch, replica, training=False)


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                """The mean over the triplets that violate the margin, 0 without any (Hermans et al., 2017).

                Anchor: an image; positive: itself with noise; negatives: all others with noise.
                """
                left, right, weights = batch
                left = tf.math.l2_normalize(run.model(left, training=training), axis=1)  # (rows, features)
                right = tf.math.l2_normalize(run.model(right, training=training), axis=1)
                candidates = replica.all_gather(right)  # (rows of all replicas, features)
                there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
                rows = left.shape[0]
                own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
                is_negative = there & (tf.range(candidates.shape[0]) != own[:, tf.newaxis])
                negative = 1.0 - tf.matmul(left, candidates, transpose_b=True)  # cosine distances
                positive = 1.0 - tf.reduce_sum(left * right, axis=1, keepdims=True)  # (rows, 1)
                violation = tf.where(is_negative, tf.nn.relu(MARGIN + positive - negative), 0.0)
                number = tf.math.count_nonzero(violation, axis=1, dtype=violation.dtype)
                per_example = tf.math.divide_no_nan(tf.reduce_sum(violation, axis=1), number)  # (rows,)
                # Ties count against the model: else features that are all the same would rank first.
                nearer = tf.math.count_nonzero(is_negative & (negative <= positive), axis=1)
                reciprocal = 1.0 / tf.cast(1 + nearer, violation.dtype)
                run.metrics["reciprocal_rank"].update_state(reciprocal, weights)
                run.metrics["recall_at_5"].update_state(nearer < 5, weights)
                return {"main": compute_loss(per_example, weights, run.model, replica)}
            ''',
            interact="True",
        ),
        Edit(
            "losses.py",
            "return {}  # the step calls TensorFlow's cross-entropy itself",
            "return {}  # the step computes that of triplets itself",
        ),
        function(
            "predictions.py",
            "describe",
            '''
            def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
                """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
                features = np.asarray(outputs)
                return {"feature": features / np.linalg.norm(features, axis=1, keepdims=True)}
            ''',
        ),
        Edit("predictions.py", "import tensorflow as tf\n", ""),
    ),
)

MATCHING = change_of(
    name="function matching on mixed images without labels",
    project="distillation",
    edits=(
        Edit(
            "data.py",
            """        return keras.ops.image.affine_transform(images, transforms), labels, weights

    return augment
""",
            """        images = keras.ops.image.affine_transform(images, transforms)
        # Mixed with another one (Zhang et al., 2018), of which there is less, so that the label
        # remains the likelier one. The teacher sees the mixture too, so no label is mixed.
        share = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), mix_seed, 0.5, 1.0)
        images = share * images + (1.0 - share) * tf.reverse(images, [0])
        return images, labels, weights

    return augment
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
            """        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
""",
            """        shift_seed, mix_seed = tf.unstack(tf.random.split(seed, 2))
        shape = (images.shape[0], 2)
        shifts = tf.random.stateless_uniform(shape, shift_seed, -task.shift, task.shift)
""",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Any]:
                """Losses by name; both logits give one number per example."""

                def divergence(taught: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
                    """From the student's probabilities to the teacher's, (batch, classes) -> (batch,)."""
                    difference = tf.nn.log_softmax(taught) - tf.nn.log_softmax(logits)
                    return tf.reduce_sum(tf.nn.softmax(taught) * difference, axis=1)

                return {"main": divergence}
            ''',
        ),
        Edit(
            "metrics.py",
            'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            """return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "agreement": keras.metrics.SparseCategoricalAccuracy(),  # with the teacher
    }""",
        ),
        Edit(
            "config.py",
            'monitor: str = "validation_accuracy"',
            'monitor: str = "validation_agreement"',
        ),
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
        steps('''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss

            TEMPERATURE = 2.0
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """Makes the student the same function as the teacher (Beyer et al., 2022); no label needed."""
                return _step(run, batch, replica, training=True)


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """How well it does on images that aren't mixed."""
                return _step(run, batch, replica, training=False)


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return _step(run, batch, replica, training=False)


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                images, labels, weights = batch
                logits = run.model(images, training=training)  # (batch, classes)
                taught = tf.cast(run.models["teacher"](images, training=False), logits.dtype)
                # A gradient shrinks with the square of the temperature (Hinton et al., 2015).
                softened = run.losses["main"](taught / TEMPERATURE, logits / TEMPERATURE)  # (batch,)
                run.metrics["accuracy"].update_state(labels, logits, weights)  # labels serve this only
                run.metrics["agreement"].update_state(tf.argmax(taught, axis=1), logits, weights)
                return {"main": compute_loss(TEMPERATURE**2 * softened, weights, run.model, replica)}
            '''),
    ),
)
ADAPTER = change_of(
    name="frozen backbone with an adapter that begins as zero",
    project="finetuning",
    edits=(
        Edit(
            "config.py",
            "    frozen_steps: int = 7  # steps in which the last layer trains alone\n",
            "    bottleneck: int = 16  # units of the adapter's hidden layer\n",
        ),
        Edit(
            "config.py",
            'monitor: str = "validation_accuracy"',
            'monitor: str = "validation_macro_f1"',
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:",
            '        if self.bottleneck < 1:\n            raise ValueError(f"--bottleneck is {self.bottleneck}; it must be at least 1.")\n        if not self.learning_rate > 0:',
        ),
        whole(
            "callbacks.py",
            '''
            """Functions that are called during training."""

            from __future__ import annotations

            from ..engine.callbacks import Callback
            from .config import TaskConfig


            def create_callbacks(task: TaskConfig) -> list[Callback]:
                """None: the backbone stays frozen for good."""
                return []
            ''',
        ),
        function(
            "model.py",
            "create_model",
            '''
            def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
                """Images float (batch, h, w, 1) -> logits float32 (batch, classes).

                The backbone stays as it is; an adapter (Houlsby et al., 2019) corrects its features.
                """
                layers, floatx = keras.layers, keras.config.floatx()
                backbone = load_in_precision(BACKBONE)
                backbone.name = "backbone"
                backbone.trainable = False  # its normalization uses the moving statistics, too
                images = keras.Input(adapted["shape"], name="images")
                features = backbone(images)
                x = layers.LayerNormalization()(features)
                x = layers.Dense(task.bottleneck, activation="gelu")(x)
                # Zeros, so that training starts from the features of the backbone.
                x = layers.Dense(features.shape[-1], kernel_initializer="zeros", name="correction")(x)
                x = layers.Dropout(task.dropout)(features + x)
                l2 = keras.regularizers.L2(task.l2)
                logits = layers.Dense(CLASSES, kernel_regularizer=l2, dtype=floatx, name="logits")
                return keras.Model(images, logits(x))
            ''',
        ),
        whole(
            "metrics.py",
            '''
            """The metrics."""

            from __future__ import annotations

            from typing import Any

            import keras
            import tensorflow as tf

            from .config import TaskConfig
            from .model import CLASSES

            BINS = 10  # of the confidence


            class MacroF1(keras.metrics.Metric):
                """The mean over the classes of F1, from a confusion matrix, which replicas can add up."""

                def __init__(self, **kwargs: Any) -> None:
                    super().__init__(**kwargs)
                    self._confusion = self.add_variable((CLASSES, CLASSES), "zeros", name="confusion")

                def update_state(self, labels: Any, logits: Any, sample_weight: Any) -> None:
                    """Labels int (batch,), logits (batch, classes), weights (batch,)."""
                    floatx = self._confusion.dtype
                    is_label = tf.one_hot(labels, CLASSES, dtype=floatx)
                    is_predicted = tf.one_hot(tf.argmax(logits, axis=1), CLASSES, dtype=floatx)
                    weighted = is_label * tf.cast(sample_weight, floatx)[:, tf.newaxis]
                    self._confusion.assign_add(tf.matmul(weighted, is_predicted, transpose_a=True))

                def result(self) -> tf.Tensor:
                    """0 for a class that is neither there nor predicted."""
                    confusion = tf.convert_to_tensor(self._confusion)
                    found = tf.linalg.diag_part(confusion)
                    both = tf.reduce_sum(confusion, axis=0) + tf.reduce_sum(confusion, axis=1)
                    return tf.reduce_mean(tf.math.divide_no_nan(2.0 * found, both))


            class CalibrationError(keras.metrics.Metric):
                """How far confidence is from accuracy, the weighted mean over bins of confidence."""

                def __init__(self, **kwargs: Any) -> None:
                    super().__init__(**kwargs)
                    # The weight, the confidence and the correctness in each bin, all of them sums.
                    self._sums = self.add_variable((BINS, 3), "zeros", name="sums")

                def update_state(self, labels: Any, logits: Any, sample_weight: Any) -> None:
                    """Labels int (batch,), logits (batch, classes), weights (batch,)."""
                    floatx = self._sums.dtype
                    probabilities = tf.cast(tf.nn.softmax(logits), floatx)
                    confidence = tf.reduce_max(probabilities, axis=1)
                    is_right = tf.cast(tf.argmax(logits, axis=1) == labels, floatx)
                    bins = tf.minimum(tf.cast(confidence * BINS, tf.int32), BINS - 1)
                    weights = tf.cast(sample_weight, floatx)[:, tf.newaxis]
                    added = weights * tf.stack([tf.ones_like(confidence), confidence, is_right], axis=1)
                    in_bin = tf.one_hot(bins, BINS, dtype=floatx)
                    self._sums.assign_add(tf.matmul(in_bin, added, transpose_a=True))

                def result(self) -> tf.Tensor:
                    """0 before the first example."""
                    weight, confidence, is_right = tf.unstack(tf.convert_to_tensor(self._sums), axis=1)
                    gaps = tf.reduce_sum(tf.abs(confidence - is_right))
                    return tf.math.divide_no_nan(gaps, tf.reduce_sum(weight))


            def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
                """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
                return {
                    "accuracy": keras.metrics.SparseCategoricalAccuracy(),
                    "macro_f1": MacroF1(),
                    "calibration_error": CalibrationError(),
                }
            ''',
        ),
        function(
            "optimizer.py",
            "create_optimizer",
            '''
            def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
                """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

                Args:
                    task: the flags of the task.
                    steps: train steps in the whole run, for schedules.
                """
                schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
                return keras.optimizers.Adam(schedule)
            ''',
        ),
        Edit(
            "steps.py",
            '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n',
            "    for metric in run.metrics.values():\n        metric.update_state(labels, predictions, weights)\n",
            "*",
        ),
    ),
)

ONE_CYCLE = change_of(
    name="one cycle sgd with slower lower layers",
    project="finetuning",
    edits=(
        Edit(
            "config.py",
            "learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine",
            "learning_rate: float = 0.1  # largest learning rate, of the last layer, after 30% of the run",
        ),
        whole(
            "optimizer.py",
            '''
            """The optimizer, and what happens to the gradients before it applies them."""

            from __future__ import annotations

            import math

            import keras
            import tensorflow as tf

            from .config import TaskConfig

            RISE = 0.3  # fraction of the run in which the learning rate rises
            FIRST, LAST = 1 / 25, 1e-4  # of the largest learning rate
            # Learning rates of lower layers as fractions of that of the last one (Howard & Ruder, 2018).
            FRACTIONS = {"conv2d_1": 0.3, "conv2d": 0.1}


            @keras.saving.register_keras_serializable("task")
            class OneCycle(keras.optimizers.schedules.LearningRateSchedule):
                """Up and down again, both along a cosine (Smith & Topin, 2017)."""

                def __init__(self, highest: float, steps: int) -> None:
                    self.highest, self.steps = highest, steps

                def __call__(self, step: tf.Tensor) -> tf.Tensor:
                    done = tf.cast(step, keras.config.floatx()) / self.steps
                    up = FIRST + (1.0 - FIRST) * _smooth(done / RISE)
                    down = 1.0 + (LAST - 1.0) * _smooth((done - RISE) / (1.0 - RISE))
                    return self.highest * tf.where(done < RISE, up, down)

                def get_config(self) -> dict[str, float]:
                    return {"highest": self.highest, "steps": self.steps}


            def _smooth(x: tf.Tensor) -> tf.Tensor:
                """From 0 to 1 along a cosine."""
                return 0.5 - 0.5 * tf.cos(math.pi * tf.clip_by_value(x, 0.0, 1.0))


            def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
                """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

                Args:
                    task: the flags of the task.
                    steps: train steps in the whole run, for schedules.
                """
                return keras.optimizers.SGD(OneCycle(task.learning_rate, steps), momentum=0.9, nesterov=True)


            def process_gradients(
                gradients: list[tf.Tensor], variables: list[keras.Variable]
            ) -> list[tf.Tensor]:
                """Centered for each unit of a kernel (Yong et al., 2020), and smaller in lower layers.

                SGD is linear in the gradients, so that a factor of them is one of the learning rate, which
                it wouldn't be with Adam.
                """
                processed = []
                for gradient, variable in zip(gradients, variables, strict=True):
                    if gradient.shape.rank > 1:
                        axes = list(range(gradient.shape.rank - 1))
                        gradient -= tf.reduce_mean(gradient, axis=axes, keepdims=True)
                    names = variable.path.split("/")
                    factors = [factor for name, factor in FRACTIONS.items() if name in names]
                    processed.append(gradient * math.prod(factors))
                return processed
            ''',
        ),
    ),
)

QUANTILES = change_of(
    name="quantile forecast by a recurrent network",
    project="forecasting",
    edits=(
        Edit("config.py", "learning_rate: float = 1e-3", "learning_rate: float = 1e-2"),
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            "PAST, FUTURE = 24, 6  # hours\nQUANTILES = (0.1, 0.5, 0.9)  # of what is to forecast\n",
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
            """    # Backwards in time, then forwards: the last state has read the last hours last.
    x = layers.GRU(task.units, return_sequences=True, go_backwards=True)(x)
    x = layers.GRU(task.units)(ops.flip(x, axis=1))
    x = layers.Dense(FUTURE * 3, dtype=floatx)(x)
    x = layers.Reshape((FUTURE, 3), dtype=floatx)(x)
    # The outer quantiles are distances from the median, so that no two of them can cross.
    median = x[..., :1]
    low, high = median - ops.softplus(x[..., 1:2]), median + ops.softplus(x[..., 2:])
    x = layers.Concatenate(dtype=floatx)([low, median, high])  # (batch, FUTURE, quantiles)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
        ),
        Edit(
            "model.py",
            "-> forecast (batch, FUTURE), in units of the data.",
            "-> quantiles (batch, FUTURE, 3), in its units.",
        ),
        Edit(
            "losses.py",
            "def weights_of_values(",
            '''def pinball(values: tf.Tensor, quantiles: tf.Tensor) -> tf.Tensor:
    """The mean over QUANTILES, (batch, FUTURE) and (batch, FUTURE, 3) -> (batch, FUTURE).

    An error costs its size times the quantile where the forecast is too low, and times one minus
    that where it is too high: the least loss on average is at the quantile (Koenker & Bassett, 1978).
    """
    error = values[..., tf.newaxis] - quantiles  # (batch, FUTURE, 3)
    q = tf.constant(QUANTILES, error.dtype)
    return tf.reduce_mean(tf.maximum(q * error, (q - 1.0) * error), axis=-1)


def weights_of_values(''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import QUANTILES\n",
        ),
        Edit(
            "losses.py",
            "None by name: the step squares the errors itself.",
            "None by name: the step calls `pinball` itself.",
        ),
        function(
            "metrics.py",
            "create_metrics",
            '''
            def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
                """The mean absolute error of each hour's median, and what lies between the outer quantiles."""
                hours = {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
                return {**hours, "coverage_80": keras.metrics.Mean(), "width_80": keras.metrics.Mean()}
            ''',
        ),
        function(
            "steps.py",
            "_step",
            '''
            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                """The pinball loss of the values that are there."""
                past, future, _ = batch
                quantiles = run.model(past, training=training)  # (batch, FUTURE, 3)
                low, median, high = tf.unstack(quantiles, axis=-1)  # each (batch, FUTURE)
                weights = weights_of_values(batch)  # (batch, FUTURE)
                values = tf.where(weights > 0, future, median)  # without NaN: 0 x NaN is NaN
                for hour in range(1, FUTURE + 1):
                    absolute = tf.abs(values - median)[:, hour - 1]  # (batch,)
                    run.metrics[f"mae_{hour}"].update_state(absolute, weights[:, hour - 1])
                run.metrics["coverage_80"].update_state((low <= values) & (values <= high), weights)
                run.metrics["width_80"].update_state(high - low, weights)
                return {"main": compute_loss(pinball(values, quantiles), weights, run.model, replica)}
            ''',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss, weights_of_values",
            "from .losses import compute_loss, pinball, weights_of_values",
        ),
    ),
)

ORIGINS = change_of(
    name="rolling origin with embargo and student t errors",
    project="forecasting",
    edits=(
        Edit(
            "config.py",
            "    learning_rate: float = 1e-3",
            "    origin: int = 2  # which of three ends of the training data, 0 to 2; later ones leave more of it\n    half_life: float = 400.0  # hours after which a training example counts half\n    learning_rate: float = 5e-3",
        ),
        Edit(
            "config.py",
            "        if not self.learning_rate > 0:",
            '        if self.origin not in range(3):\n            raise ValueError(f"--origin is {self.origin}; it must be 0, 1 or 2.")\n        if not self.half_life > 0:\n            raise ValueError(f"--half-life is {self.half_life}; it must be more than 0.")\n        if not self.learning_rate > 0:',
        ),
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            """PAST, FUTURE = 24, 6  # hours
ORIGINS = (0.45, 0.55, 0.65)  # fractions of the series that training data end at
HELD_OUT = 0.14  # fraction of the series in the validation, and in the test
EMBARGO = 24  # hours left out between two splits: weather lasts longer than a window
""",
        ),
        function(
            "data.py",
            "create_datasets",
            '''
            def create_datasets(task: TaskConfig) -> dict[str, Any]:
                """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing.

                In training also weights float32 (n,) with a mean of 1, the larger the later. What comes after
                the test of this origin is left out.
                """
                rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
                end, held_out = int(ORIGINS[task.origin] * len(rows)), int(HELD_OUT * len(rows))
                inputs, labels = _windows(rows[:end])
                ages = np.arange(len(labels))[::-1]  # hours before the last one
                weights = 0.5 ** (ages / task.half_life)
                validation = end + EMBARGO
                test = validation + held_out + EMBARGO
                return {
                    "train": (inputs, labels, (weights / weights.mean()).astype("float32")),
                    "validation": _windows(rows[validation : validation + held_out]),
                    "test": _windows(rows[test : test + held_out]),
                }
            ''',
        ),
        Edit(
            "model.py",
            '    inputs, labels = datasets["train"]\n',
            '    inputs, labels, _ = datasets["train"]\n',
        ),
        Edit(
            "model.py",
            "from .data import COLUMNS, FUTURE, PAST\n",
            "from .data import COLUMNS, FUTURE, PAST, TARGET\n",
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
            """    x = layers.Dense(2 * FUTURE, dtype=floatx)(x)
    change, spread = x[:, :FUTURE], x[:, FUTURE:]
    # Forecasts are relative to the mean of the last hours, as in reversible instance normalization
    # (Kim et al., 2022), so that a level that was never seen does no harm. One hour more, of the mean
    # of the training data, is what counts where all of them are missing.
    recent, is_there = scaled[:, -6:, TARGET], ops.logical_not(missing[:, -6:, TARGET])
    total = ops.sum(ops.where(is_there, recent, 0.0), axis=1, keepdims=True)
    level = total / (1.0 + ops.sum(ops.cast(is_there, floatx), axis=1, keepdims=True))
    # Back to units of the data, of which TARGET is a column.
    deviation = float(np.sqrt(variance[TARGET]))
    location = float(mean[TARGET]) + deviation * (level + change)
    scale = float(adapted["label_std"]) * (ops.softplus(spread) + 0.01)  # never 0
    return keras.Model(past, ops.stack([location, scale], axis=-1))
""",
        ),
        Edit(
            "model.py",
            "-> forecast (batch, FUTURE), in units of the data.",
            "-> location, scale (batch, FUTURE, 2).",
        ),
        Edit("model.py", '        "label_mean": np.nanmean(labels),\n', ""),
        Edit(
            "losses.py",
            "def weights_of_values(",
            '''def student_t(values: tf.Tensor, location: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """Minus the log density of Student's t distribution, all (batch, FUTURE).

    Its heavy tails keep single outliers from ruling the fit.
    """
    squares = tf.square((values - location) / scale) / FREEDOM
    constant = math.lgamma(FREEDOM / 2) - math.lgamma((FREEDOM + 1) / 2)
    constant += 0.5 * math.log(FREEDOM * math.pi)
    return constant + tf.math.log(scale) + 0.5 * (FREEDOM + 1) * tf.math.log1p(squares)


def weights_of_values(''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nFREEDOM = 5.0  # degrees of freedom of the errors\n",
        ),
        Edit("losses.py", "from typing import Any\n", "import math\nfrom typing import Any\n"),
        Edit(
            "losses.py",
            "None by name: the step squares the errors itself.",
            "None by name: the step calls `student_t` itself.",
        ),
        function(
            "steps.py",
            "_step",
            '''
            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                """Minus the log likelihood of the values that are there."""
                past, future, _ = batch
                location, scale = tf.unstack(run.model(past, training=training), axis=-1)
                weights = weights_of_values(batch)  # (batch, FUTURE)
                values = tf.where(weights > 0, future, location)  # without NaN: 0 x NaN is NaN
                for hour in range(1, FUTURE + 1):
                    absolute = tf.abs(values - location)[:, hour - 1]  # (batch,)
                    run.metrics[f"mae_{hour}"].update_state(absolute, weights[:, hour - 1])
                per_value = student_t(values, location, scale)  # (batch, FUTURE)
                return {"main": compute_loss(per_value, weights, run.model, replica)}
            ''',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss, weights_of_values",
            "from .losses import compute_loss, student_t, weights_of_values",
        ),
    ),
)

GAN_END = '''
            # TODO(13): one validation step; default: both losses.
            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contributions to both validation losses."""
                images, latents, weights = batch
                generator, discriminator = run.models["generator"], run.models["discriminator"]
                generated = generator(latents, training=False)  # (batch, h, w, channels)
                on_real = discriminator(images, training=False)  # (batch, 1)
                on_generated = discriminator(generated, training=False)  # (batch, 1)
                discriminator_losses = run.losses["discriminator"](on_real, on_generated)  # (batch,)
                generator_losses = run.losses["generator"](on_generated)  # (batch,)
                run.metrics["frechet"].update_state(images, generated, weights)
                run.metrics["nearest_distance"].update_state(generated, weights)
                return {
                    "discriminator": compute_loss(discriminator_losses, weights, discriminator, replica),
                    "generator": compute_loss(generator_losses, weights, generator, replica),
                }


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contributions to both test losses."""
                return validation_step(run, batch, replica)
'''

WASSERSTEIN = change_of(
    name="wasserstein gan with two critic steps and gradient penalty",
    project="gan",
    edits=(
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
        Edit("config.py", "learning_rate: float = 1e-3", "learning_rate: float = 5e-4"),
        Edit(
            "optimizer.py",
            """    # Little momentum, because each model's task changes with the other (Radford et al., 2015).
    return {
        "generator": keras.optimizers.Adam(schedule, beta_1=0.5),
        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),
    }
""",
            """    # The critic makes two updates in each step, and a schedule counts the updates of its optimizer.
    slower = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=2 * steps)
    # No momentum, because each model's task changes with the other (Gulrajani et al., 2017).
    return {
        "generator": keras.optimizers.Adam(schedule, beta_1=0.0, beta_2=0.9),
        "discriminator": keras.optimizers.Adam(slower, beta_1=0.0, beta_2=0.9),
    }
""",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
                """Losses by name; scores (batch, 1) give one number per example, of either sign."""

                def critic_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
                    """Minus an estimate of the distance of both distributions, but for a factor."""
                    return (on_generated - on_real)[:, 0]

                def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
                    """Low if the scores of generated images are high."""
                    return -on_generated[:, 0]

                return {"discriminator": critic_loss, "generator": generator_loss}
            ''',
        ),
        whole(
            "steps.py",
            '''
            """The train, validation and test step, as one replica computes them.

            A step gets this replica's part of a batch, updates the metrics and returns a loss by the name of
            the model and optimizer that it is for. The discriminator is a critic here: its scores aren't
            logits.
            """

            from __future__ import annotations

            import keras
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss

            PENALTY = 10.0  # factor of the squared distance of a gradient's norm from 1
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)


            def critic_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """One of the critic's steps; its latents and mixtures are drawn anew in each of them."""
                images, latents, weights = batch
                generator, critic = run.models["generator"], run.models["discriminator"]
                for_latents, for_mixtures = tf.unstack(tf.random.split(replica.seed, 2))
                latents = tf.random.stateless_normal(latents.shape, for_latents, dtype=latents.dtype)
                generated = generator(latents, training=True)  # (batch, h, w, channels)
                on_real, on_generated = critic(images, training=True), critic(generated, training=True)
                per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
                shape = (images.shape[0], 1, 1, 1)
                share = tf.random.stateless_uniform(shape, for_mixtures, dtype=images.dtype)
                mixtures = share * images + (1.0 - share) * generated
                per_example += PENALTY * gradient_penalty(critic, mixtures)
                return {"discriminator": compute_loss(per_example, weights, critic, replica)}


            def generator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The generator's training loss, judged by the critic that was just updated twice."""
                images, latents, weights = batch
                generator, critic = run.models["generator"], run.models["discriminator"]
                generated = generator(latents, training=True)  # (batch, h, w, channels)
                per_example = run.losses["generator"](critic(generated, training=True))  # (batch,)
                run.metrics["frechet"].update_state(images, generated, weights)
                run.metrics["nearest_distance"].update_state(generated, weights)
                return {"generator": compute_loss(per_example, weights, generator, replica)}


            def gradient_penalty(critic: keras.Model, images: tf.Tensor) -> tf.Tensor:
                """How far the slope of the critic is from 1 at each image, squared, (batch,)."""
                with tf.GradientTape() as tape:
                    tape.watch(images)
                    scores = critic(images, training=True)  # (batch, 1), each of its own image only
                slopes = tape.gradient(scores, images)  # (batch, h, w, channels)
                # Not the square root of 0, whose gradient is infinite.
                norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)
                return tf.square(norms - 1.0)

            '''
            + GAN_END
            + """

            TRAIN_STEPS = (critic_step, critic_step, generator_step)  # called in this order on the same batch
            TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
            # True if an example's loss depends on other examples of its batch, as in contrastive learning.
            EXAMPLES_INTERACT = False
            """,
        ),
        Edit("predictions.py", '{"logit": outputs}', '{"score": outputs}'),
    ),
)

SPECTRAL = change_of(
    name="hinge gan with spectral normalization and two time scales",
    project="gan",
    edits=(
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
        Edit(
            "config.py",
            "learning_rate: float = 1e-3  # learning rate of both models at the start; decays to 0",
            "learning_rate: float = 1e-3  # of the generator at the start; decays to 0. The other's is twice that",
        ),
        Edit(
            "model.py",
            """        x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)
        x = layers.Dropout""",
            """        x = normalized(layers.Conv2D(filters, 4, strides=2, padding="same"))(x)
        x = layers.Dropout""",
        ),
        Edit(
            "model.py",
            """    logits = layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits, name="discriminator")""",
            """    floatx = keras.config.floatx()
    logits = normalized(layers.Dense(1, dtype=floatx, name="logits"), dtype=floatx)(x)
    return keras.Model(images, logits, name="discriminator")""",
        ),
        Edit(
            "model.py",
            """    images = keras.Input((height, width, channels), name="images")
""",
            """    normalized = layers.SpectralNormalization  # no layer stretches by more than 1 (Miyato et al., 2018)
    images = keras.Input((height, width, channels), name="images")
""",
        ),
        Edit(
            "optimizer.py",
            """        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),
""",
            """        "discriminator": keras.optimizers.Adam(faster, beta_1=0.5),
""",
        ),
        Edit(
            "optimizer.py",
            """    # Little momentum""",
            """    # The discriminator learns faster, and so needs no further steps (Heusel et al., 2017).
    faster = keras.optimizers.schedules.CosineDecay(2 * task.learning_rate, decay_steps=steps)
    # Little momentum""",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
            def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
                """Losses by name: logits (batch, 1) -> one number per example."""

                def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
                    """0 if the logits are 1 or more on real images and -1 or less on generated ones."""
                    return (tf.nn.relu(1.0 - on_real) + tf.nn.relu(1.0 + on_generated))[:, 0]

                def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
                    """Low if the logits are high on generated images, without a bound."""
                    return -on_generated[:, 0]

                return {"discriminator": discriminator_loss, "generator": generator_loss}
            ''',
        ),
        function(
            "steps.py",
            "discriminator_step",
            '''
            def discriminator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contribution to the discriminator's training loss."""
                images, latents, weights = batch
                generator, discriminator = run.models["generator"], run.models["discriminator"]
                generated = generator(latents, training=True)  # (batch, h, w, channels)
                # In one call, so that its weights are normalized once, and the same for both.
                logits = discriminator(tf.concat([images, generated], axis=0), training=True)
                on_real, on_generated = tf.split(logits, 2)  # each (batch, 1)
                per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
                run.metrics["frechet"].update_state(images, generated, weights)
                run.metrics["nearest_distance"].update_state(generated, weights)
                return {"discriminator": compute_loss(per_example, weights, discriminator, replica)}
            ''',
        ),
        Edit(
            "steps.py",
            "    on_generated = discriminator(generated, training=True)  # (batch, 1)\n",
            "    # Not in training: only its own step changes the discriminator, normalization included.\n    on_generated = discriminator(generated, training=False)  # (batch, 1)\n",
            "generator_step",
        ),
    ),
)

UNCERTAINTY = change_of(
    name="learned weights of heads with oversampling and restarts",
    project="two_heads",
    edits=(
        Edit(
            "data.py",
            """    return {
        split: (images.astype("float32")[..., np.newaxis], _two_labels(labels))
        for split, (images, labels) in splits.items()
    }
""",
            """    datasets = {
        split: (images.astype("float32")[..., np.newaxis], _two_labels(labels))
        for split, (images, labels) in splits.items()
    }
    # Of few images it is known whether their digit is even: in training those come three times,
    # each time with another augmentation.
    images, labels = datasets["train"]
    times = np.where(labels["even"] >= 0, 3, 1)
    repeated = {head: np.repeat(values, times) for head, values in labels.items()}
    datasets["train"] = np.repeat(images, times, axis=0), repeated
    return datasets
""",
        ),
        Edit(
            "model.py",
            """    return keras.Model(images, {"digit": logits, "even": even})
""",
            """    # In full precision, like what it is given.
    last = LogVariances(name="log_variances", dtype=keras.config.floatx())
    return keras.Model(images, last({"digit": logits, "even": even}))
""",
        ),
        Edit(
            "model.py",
            "# TODO(4):",
            '''@keras.saving.register_keras_serializable("task")
class LogVariances(keras.layers.Layer):
    """Gives what it gets; holds a log variance for each head, which the train step reads."""

    def build(self, shapes: dict[str, Any]) -> None:
        """Zeros: both heads count the same at first."""
        self.values = {
            head: self.add_weight(shape=(), initializer="zeros", name=f"log_variance_{head}")
            for head in sorted(shapes)
        }

    def call(self, outputs: dict[str, Any]) -> dict[str, Any]:
        """The outputs of the heads as they are."""
        return outputs


# TODO(4):''',
        ),
        function(
            "steps.py",
            "train_step",
            '''
            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contribution to the training loss; it may be negative.

                The model learns how much each head counts (Kendall et al., 2018): exp(-s) times its loss, and
                s / 2, without which s would grow for ever.
                """
                images, labels, _ = batch
                outputs = run.model(images, training=True)  # {head: (batch, classes)}
                log_variances = run.model.get_layer("log_variances").values
                weights = weights_of_heads(batch)
                terms, loss = {}, tf.nn.scale_regularization_loss(replica.regularization(run.model))
                for head in HEADS:
                    known = tf.maximum(labels[head], 0)  # any class will do where the weight is 0
                    per_example = run.losses[head](known, outputs[head])  # (batch,)
                    terms[head] = tf.nn.compute_average_loss(
                        per_example, sample_weight=weights[head], global_batch_size=replica.global_count[head]
                    )
                    run.metrics[f"{head}_accuracy"].update_state(known, outputs[head], weights[head])
                    s = tf.convert_to_tensor(log_variances[head])
                    # Once in the sum over replicas and micro-batches, like regularization.
                    once = tf.nn.scale_regularization_loss(0.5 * s / replica.num_microbatches)
                    loss += tf.exp(-s) * terms[head] + once
                return {"main": loss, **terms}
            ''',
        ),
        function(
            "optimizer.py",
            "create_optimizer",
            '''
            def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
                """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

                Args:
                    task: the flags of the task.
                    steps: train steps in the whole run, for schedules.
                """
                # Three cycles of 1/7, 2/7 and 4/7 of the run (Loshchilov & Hutter, 2017).
                schedule = keras.optimizers.schedules.CosineDecayRestarts(
                    task.learning_rate, first_decay_steps=max(1, -(-steps // 7)), t_mul=2.0, m_mul=0.7
                )
                return keras.optimizers.Adam(schedule)
            ''',
        ),
    ),
)

VQ = change_of(
    name="vector quantized autoencoder",
    project="vae",
    edits=(
        whole(
            "model.py",
            '''
            """The model."""

            from __future__ import annotations

            from typing import Any

            import keras
            import numpy as np

            from ..engine.batches import first_examples
            from .config import TaskConfig

            PLACES, CODES, LENGTH = 8, 32, 8  # an image is coded by PLACES vectors, each one of CODES


            @keras.saving.register_keras_serializable("task")
            class Codebook(keras.layers.Layer):
                """The nearest code of each vector: (batch, PLACES, LENGTH) -> the same, and its number."""

                def build(self, shape: Any) -> None:
                    """Codes of the size of normalized vectors, so that most of them are used from the start."""
                    normal = keras.initializers.RandomNormal(stddev=1.0)
                    self.codes = self.add_weight((CODES, LENGTH), normal, name="codes")

                def call(self, vectors: Any) -> tuple[Any, Any]:
                    """Which code is nearest has no gradient; the codes themselves get one."""
                    ops, codes = keras.ops, self.codes
                    difference = ops.expand_dims(vectors, 2) - codes  # (batch, PLACES, CODES, LENGTH)
                    which = ops.argmin(ops.sum(ops.square(difference), axis=-1), axis=-1)
                    return ops.take(codes, which, axis=0), which

                def compute_output_spec(self, vectors: Any) -> tuple[Any, Any]:
                    """The shapes of both."""
                    which = keras.KerasTensor(vectors.shape[:-1], dtype="int32")
                    return keras.KerasTensor(vectors.shape, dtype=self.compute_dtype), which


            def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
                """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

                Called once, when a run starts, and saved with it: predict and export need no data.
                """
                images, *_ = first_examples(datasets["train"], 1)
                return {"shape": images.shape[1:]}


            def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
                """Images -> vectors, the nearest codes and their numbers; codes -> images."""
                layers, floatx = keras.layers, keras.config.floatx()
                images = keras.Input(adapted["shape"], name="images")
                shape = images.shape[1:]  # (h, w, 1)
                x = layers.Dense(128, activation="relu")(layers.Flatten()(images))
                x = layers.Dense(PLACES * LENGTH, dtype=floatx)(x)
                x = layers.Reshape((PLACES, LENGTH), dtype=floatx)(x)
                # Of one size (as in Yu et al., 2022), or they would grow away from the codes.
                vectors = layers.LayerNormalization(center=False, scale=False, dtype=floatx)(x)
                nearest, which = Codebook(dtype=floatx, name="codebook")(vectors)
                outputs = {"vectors": vectors, "nearest": nearest, "which": which}
                encoder = keras.Model(images, outputs, name="encoder")
                codes = keras.Input((PLACES, LENGTH), name="codes")
                x = layers.Dense(128, activation="relu")(layers.Flatten()(codes))
                x = layers.Dropout(task.dropout)(x)
                l2 = keras.regularizers.L2(task.l2)
                pixels = int(np.prod(shape))
                x = layers.Dense(pixels, activation="sigmoid", kernel_regularizer=l2, dtype=floatx)(x)
                decoder = keras.Model(codes, layers.Reshape(shape, dtype=floatx)(x), name="decoder")
                return {"encoder": encoder, "decoder": decoder}
            ''',
        ),
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.1"),
        function(
            "losses.py",
            "kl_divergence",
            '''
            def squared_distance(vectors: tf.Tensor, codes: tf.Tensor) -> tf.Tensor:
                """Of all places together, (batch, PLACES, LENGTH) twice -> (batch,)."""
                return tf.reduce_sum(tf.square(vectors - codes), axis=[1, 2])
            ''',
        ),
        whole(
            "metrics.py",
            '''
            """The metrics."""

            from __future__ import annotations

            from typing import Any

            import keras
            import tensorflow as tf

            from .config import TaskConfig
            from .model import CODES


            class Perplexity(keras.metrics.Metric):
                """How many codes are in use: CODES if all are used as often, 1 if it is always the same."""

                def __init__(self, **kwargs: Any) -> None:
                    super().__init__(**kwargs)
                    # How often each was used: a sum, which replicas and batches can add up.
                    self._used = self.add_variable((CODES,), "zeros", name="used")

                def update_state(self, which: Any, sample_weight: Any) -> None:
                    """Numbers of codes int (batch, PLACES), weights (batch,)."""
                    used = tf.one_hot(which, CODES, dtype=self._used.dtype)  # (batch, PLACES, CODES)
                    weights = tf.cast(sample_weight, used.dtype)[:, tf.newaxis, tf.newaxis]
                    self._used.assign_add(tf.reduce_sum(weights * used, axis=[0, 1]))

                def result(self) -> tf.Tensor:
                    """1 before the first example."""
                    used = tf.convert_to_tensor(self._used)
                    fraction = tf.math.divide_no_nan(used, tf.reduce_sum(used))
                    return tf.exp(-tf.reduce_sum(tf.math.xlogy(fraction, fraction)))


            def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
                """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
                return {"perplexity": Perplexity()}
            ''',
        ),
        steps(
            '''
            import tensorflow as tf

            from ..engine.types import Replica, Run
            from .losses import compute_loss, means, squared_distance

            COMMITMENT = 0.25  # how much vectors follow codes, of how much codes follow vectors
            Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


            def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """This replica's contribution to the training loss."""
                return _step(run, batch, replica, training=True)


            def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same without dropout."""
                return _step(run, batch, replica, training=False)


            def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
                """The same as in validation."""
                return _step(run, batch, replica, training=False)


            def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
                """Reconstruction from the nearest codes (van den Oord et al., 2017); no label needed."""
                images, _, weights = batch
                encoder, decoder = run.models["encoder"], run.models["decoder"]
                coded = encoder(images, training=training)
                vectors, nearest = coded["vectors"], coded["nearest"]  # (batch, PLACES, LENGTH)
                # The values of the codes; the gradient goes to the vectors as if they weren't replaced.
                passed = vectors + tf.stop_gradient(nearest - vectors)
                error = run.losses["main"](images, decoder(passed, training=training))  # (batch,)
                codebook = squared_distance(tf.stop_gradient(vectors), nearest)  # moves the codes
                commitment = squared_distance(vectors, tf.stop_gradient(nearest))  # moves the encoder
                run.metrics["perplexity"].update_state(coded["which"], weights)
                per_example = error + codebook + COMMITMENT * commitment
                loss = compute_loss(per_example, weights, encoder, replica)
                loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
                terms = means({"error": error, "commitment": commitment}, weights, replica)
                return {"main": loss, **terms}
            ''',
            terms='("error", "commitment")',
        ),
    ),
)
TASKS: tuple[Change, ...] = (
    EVIDENTIAL,
    CTC,
    MEAN_TEACHER,
    AGE_GROUPS,
    GAMMA,
    TIED,
    EXPERTS,
    DICE,
    DEEP,
    BARLOW,
    TRIPLET,
    MATCHING,
    ADAPTER,
    ONE_CYCLE,
    QUANTILES,
    ORIGINS,
    WASSERSTEIN,
    SPECTRAL,
    UNCERTAINTY,
    VQ,
)

FAULTS: tuple[Fault, ...] = ()
