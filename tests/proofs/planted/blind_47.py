"""Correct tasks of an examiner, in starters and in tasks of owners."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .tasks import PICTURES
from .unusual import change_of

FAULTS: tuple[Fault, ...] = ()


def whole(file: str, text: str) -> Edit:
    """The file anew."""
    return Edit(file, "", text.lstrip("\n"))


def function(file: str, name: str, text: str) -> Edit:
    """A function anew."""
    return Edit(file, "", text.lstrip("\n"), name)


def predictions(body: str) -> Edit:
    """No readers; `describe` with a body."""
    return whole(
        "predictions.py",
        f'''
"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {{}}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
{body}
''',
    )


STEPS_TOP = '''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import keras
import tensorflow as tf

from ..engine.types import Replica, Run
'''


MEAN_TEACHER = change_of(
    name="mean teacher learns from few labels",
    project="image_classification",
    edits=(
        function(
            "data.py",
            "create_datasets",
            '''
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1], labels int64 (n,); -1 for most of training: unknown.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    datasets = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    images, labels = datasets["train"]
    known = np.random.default_rng(0).random(len(labels)) < KNOWN
    return datasets | {"train": (images, np.where(known, labels, -1))}
''',
        ),
        Edit(
            "data.py",
            "\nArrays = ",
            "KNOWN = 0.2  # fraction of the training labels that is used\n\nArrays = ",
        ),
        function(
            "losses.py",
            "count",
            '''
def weights_of_terms(batch: Any) -> dict[str, tf.Tensor]:
    """The weight of each example in each term, float (batch,)."""
    _, labels, weights = batch
    return {
        "supervised": weights * tf.cast(labels >= 0, weights.dtype),
        "consistency": weights,
    }


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many examples of `batch` count in each term, int32 scalars."""
    return {
        name: tf.math.count_nonzero(weights, dtype=tf.int32)
        for name, weights in weights_of_terms(batch).items()
    }
''',
        ),
        function(
            "losses.py",
            "compute_loss",
            '''
def compute_terms(
    per_example: dict[str, tf.Tensor], batch: Any, replica: Replica
) -> dict[str, tf.Tensor]:
    """This replica's part of the mean of each term, scalars; per_example: (batch,) by term."""
    weights = weights_of_terms(batch)
    return {
        name: tf.nn.compute_average_loss(
            values, sample_weight=weights[name], global_batch_size=replica.global_count[name]
        )
        for name, values in per_example.items()
    }
''',
        ),
        function(
            "model.py",
            "create_model",
            '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """The student, which is trained, and the teacher, the moving average of its weights."""
    student, teacher = _create_one(task, adapted), _create_one(task, adapted)
    teacher.trainable = False
    teacher.set_weights(student.get_weights())
    return {"student": student, "teacher": teacher}


def _create_one(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes)."""
    layers = keras.layers
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input(adapted["shape"], name="images")
    x = images
    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dropout(task.dropout)(layers.Flatten()(x))
    x = layers.Dropout(task.dropout)(layers.Dense(128, activation="relu")(x))
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
''',
        ),
        Edit(
            "pictures.py",
            "predict_in_parts(run.model, images)",
            'predict_in_parts(run.models["teacher"], images)',
        ),
        whole(
            "steps.py",
            STEPS_TOP
            + '''from .losses import compute_terms, weights_of_terms

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels or -1 (batch,), weights (batch,)

CONSISTENCY, RAMP_UP = 10.0, 150  # its factor, and steps until it counts in full
DECAY = 0.99  # of the teacher's weights, at most


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """Student and teacher see the same images with different dropout, and should agree."""
    images, labels, _ = batch
    student, teacher = run.models["student"], run.models["teacher"]
    logits = student(images, training=True)  # (batch, classes)
    taught = tf.stop_gradient(tf.nn.softmax(teacher(images, training=True)))
    weights = weights_of_terms(batch)["supervised"]
    known = tf.maximum(labels, 0)  # any class will do where the weight is 0
    run.metrics["accuracy"].update_state(known, logits, weights)
    per_example = {
        "supervised": run.losses["main"](known, logits),
        "consistency": tf.reduce_mean(tf.square(tf.nn.softmax(logits) - taught), axis=1),
    }
    terms = compute_terms(per_example, batch, replica)
    ramp = tf.minimum(tf.cast(replica.step, tf.float32) / RAMP_UP, 1.0)
    factor = CONSISTENCY * tf.exp(-5.0 * tf.square(1.0 - ramp))
    loss = terms["supervised"] + tf.cast(factor, logits.dtype) * terms["consistency"]
    _follow(teacher, student, replica)
    regularization = tf.nn.scale_regularization_loss(replica.regularization(student))
    return {"main": loss + regularization, **terms}


def _follow(teacher: keras.Model, student: keras.Model, replica: Replica) -> None:
    """Move the teacher's weights towards the student's; faster in the first steps."""
    made = tf.cast(replica.step, tf.float32)
    decay = tf.minimum((1.0 + made) / (10.0 + made), DECAY)
    decay **= 1.0 / replica.num_microbatches
    for average, weight in zip(teacher.weights, student.weights, strict=True):
        old, new = (tf.convert_to_tensor(variable) for variable in (average, weight))
        average.assign(new + tf.cast(decay, old.dtype) * (old - new))


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The teacher's cross-entropy and accuracy, and how much the student differs from it."""
    images, labels, _ = batch
    student, teacher = run.models["student"], run.models["teacher"]
    logits = teacher(images, training=False)  # (batch, classes)
    difference = tf.nn.softmax(logits) - tf.nn.softmax(student(images, training=False))
    weights = weights_of_terms(batch)["supervised"]
    known = tf.maximum(labels, 0)
    run.metrics["accuracy"].update_state(known, logits, weights)
    per_example = {
        "supervised": run.losses["main"](known, logits),
        "consistency": tf.reduce_mean(tf.square(difference), axis=1),
    }
    terms = compute_terms(per_example, batch, replica)
    loss = terms["supervised"] + CONSISTENCY * terms["consistency"]
    regularization = tf.nn.scale_regularization_loss(replica.regularization(student))
    return {"main": loss + regularization, **terms}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS = ("supervised", "consistency")  # each with a count of its own
EXAMPLES_INTERACT = False
''',
        ),
    ),
)

ARCFACE = change_of(
    name="angular margin on a cosine head",
    project="image_classification",
    edits=(
        Edit(
            "model.py",
            "# TODO(4)",
            '''SCALE = 16.0  # of cosines, to logits


@keras.saving.register_keras_serializable("my_experiment")
class CosineLogits(keras.layers.Layer):
    """SCALE times the cosine between features and a direction for each class."""

    def __init__(self, classes: int, **options: Any) -> None:
        super().__init__(**options)
        self.classes = classes

    def build(self, shape: Any) -> None:
        """Create the directions."""
        self.directions = self.add_weight(
            shape=(shape[-1], self.classes), initializer="glorot_uniform", name="directions"
        )

    def call(self, features: Any) -> Any:
        """Features (batch, n) -> logits (batch, classes)."""
        ops = keras.ops
        features = ops.normalize(features, axis=-1, epsilon=1e-6)
        return SCALE * ops.matmul(features, ops.normalize(self.directions, axis=0, epsilon=1e-6))

    def get_config(self) -> dict[str, Any]:
        """What it is made from."""
        return super().get_config() | {"classes": self.classes}


# TODO(4)''',
        ),
        Edit(
            "model.py",
            'layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)',
            'CosineLogits(CLASSES, dtype=keras.config.floatx(), name="logits")(x)',
        ),
        Edit("model.py", 'x = layers.Dense(128, activation="relu")(x)', "x = layers.Dense(128)(x)"),
        Edit(
            "model.py",
            "    x = layers.Dropout(task.dropout)(x)\n    # Full",
            "    # Full",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss",
            "from .losses import compute_loss\nfrom .model import SCALE",
        ),
        Edit(
            "steps.py",
            "# TODO(11)",
            '''MARGIN, WARM_UP = 0.3, 100  # radians (Deng et al., 2019), and steps until all of it is added


def with_margin(logits: tf.Tensor, labels: tf.Tensor, margin: tf.Tensor) -> tf.Tensor:
    """The logits (batch, classes) with a larger angle, of at most pi, to the right class."""
    own = tf.one_hot(labels, logits.shape[1], True, False, dtype=tf.bool)
    # Within the range in which acos has a finite gradient.
    angle = tf.acos(tf.clip_by_value(logits / SCALE, -1.0 + 1e-5, 1.0 - 1e-5))
    harder = SCALE * tf.cos(tf.minimum(angle + margin, 3.14159))
    return tf.where(own, harder, logits)


# TODO(11)''',
        ),
        Edit(
            "steps.py",
            'per_example = run.losses["main"](labels, predictions)  # (batch,)',
            """margin = MARGIN * tf.minimum(tf.cast(replica.step, predictions.dtype) / WARM_UP, 1.0)
    harder = with_margin(predictions, labels, margin)  # in training only
    per_example = run.losses["main"](labels, harder)  # (batch,)""",
            "train_step",
        ),
    ),
)

BAGS = change_of(
    name="multiple instance learning on bags of digits",
    project="image_classification",
    edits=(
        PICTURES,
        predictions(
            '    bag = np.asarray(tf.nn.sigmoid(outputs["bag"]))[:, 0]\n'
            '    return {"probability": bag, "attention": np.asarray(outputs["attention"])}'
        ),
        Edit(
            "config.py", 'monitor: str = "validation_accuracy"', 'monitor: str = "validation_auc"'
        ),
        Edit(
            "config.py",
            "    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables\n",
            "    bags: int = 2_000  # in the training data\n"
            "    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables\n",
        ),
        function(
            "data.py",
            "create_datasets",
            '''
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Bags of images of the split, and whether an image of WANTED is among them.

    Inputs {"images": float32 (n, MOST, h, w, 1), "there": float32 (n, MOST)}, 0 for places of a bag
    that are empty; labels float32 (n, 1).

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    sizes = {"train": task.bags, "validation": 300, "test": 300}
    return {
        split: _bags(images.astype("float32")[..., np.newaxis], labels, sizes[split], seed)
        for seed, (split, (images, labels)) in enumerate(splits.items())
    }


def _bags(images: np.ndarray, labels: np.ndarray, bags: int, seed: int) -> tuple[Any, np.ndarray]:
    random = np.random.default_rng(seed)
    rows = random.integers(len(images), size=(bags, MOST))
    there = np.arange(MOST) < random.integers(FEWEST, MOST + 1, size=(bags, 1))  # (bags, MOST)
    found = np.any(there & (labels[rows] == WANTED), axis=1, keepdims=True)
    inputs = {
        "images": images[rows] * there[..., np.newaxis, np.newaxis, np.newaxis],
        "there": there.astype("float32"),
    }
    return inputs, found.astype("float32")
''',
        ),
        Edit(
            "data.py",
            "\nArrays = ",
            "FEWEST, MOST, WANTED = 4, 8, 0  # images in a bag, and the class that is looked for\n\nArrays = ",
        ),
        function(
            "data.py",
            "augment",
            """
    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, labels, weights = batch
        shape = inputs["images"].shape  # (batch, MOST, h, w, 1)
        images = tf.reshape(inputs["images"], (-1, *shape[2:]))
        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch x MOST, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)
        images = tf.reshape(keras.ops.image.affine_transform(images, transforms), shape)
        return inputs | {"images": images}, labels, weights
""",
        ),
        Edit(
            "losses.py",
            "keras.losses.SparseCategoricalCrossentropy(",
            "keras.losses.BinaryCrossentropy(",
        ),
        Edit(
            "metrics.py",
            '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            '{\n        "accuracy": keras.metrics.BinaryAccuracy(threshold=0.0),  # of logits\n'
            '        "auc": keras.metrics.AUC(from_logits=True),\n    }',
        ),
        Edit(
            "model.py",
            '    images, *_ = first_examples(datasets["train"], 1)\n    return {"shape": images.shape[1:]}',
            '    inputs, *_ = first_examples(datasets["train"], 1)\n    return {"shape": inputs["images"].shape[1:]}',
        ),
        Edit("model.py", "CLASSES = 10\n", ""),
        function(
            "model.py",
            "create_model",
            '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Bags -> {"bag": logits float32 (batch, 1), "attention": float32 (batch, MOST)}.

    Gated attention (Ilse et al., 2018): which images of a bag its prediction comes from.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    l2 = keras.regularizers.L2(task.l2)
    most, *shape = map(int, adapted["shape"])
    inputs = {
        "images": keras.Input((most, *shape), name="images"),
        "there": keras.Input((most,), name="there"),
    }
    image = keras.Input(shape)
    x = image
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu", kernel_regularizer=l2)(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dense(64, activation="relu")(layers.Flatten()(x))
    encoder = keras.Model(image, x, name="encoder")
    x = layers.TimeDistributed(encoder)(inputs["images"])  # (batch, most, 64)
    x = layers.Dropout(task.dropout)(x)
    gate = layers.Dense(32, activation="sigmoid")(x) * layers.Dense(32, activation="tanh")(x)
    scores = ops.squeeze(layers.Dense(1, dtype=floatx, name="score")(gate), -1)  # (batch, most)
    attention = ops.softmax(ops.where(inputs["there"] > 0, scores, -1e9))
    pooled = ops.sum(attention[..., None] * ops.cast(x, floatx), axis=1)  # (batch, 64)
    bag = layers.Dense(1, dtype=floatx, name="bag")(pooled)
    return keras.Model(inputs, {"bag": bag, "attention": attention})
''',
        ),
        Edit(
            "steps.py",
            "predictions = run.model(images, training=True)  # (batch, classes)",
            'predictions = run.model(images, training=True)["bag"]  # (batch, 1)',
        ),
        Edit(
            "steps.py",
            "predictions = run.model(images, training=False)  # (batch, classes)",
            'predictions = run.model(images, training=False)["bag"]  # (batch, 1)',
            "*",
        ),
        Edit(
            "steps.py",
            '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n',
            '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n'
            '    run.metrics["auc"].update_state(labels, predictions, weights)\n',
            "*",
        ),
        Edit("steps.py", "images, labels, weights = batch", "bags, labels, weights = batch", "*"),
        Edit("steps.py", "run.model(images,", "run.model(bags,", "*"),
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)",
            "Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # bags, labels (batch, 1), weights",
        ),
    ),
)

VICREG = change_of(
    name="vicreg with statistics of the global batch",
    project="contrastive",
    edits=(
        predictions('    return {"features": np.asarray(outputs)}'),
        Edit(
            "config.py", 'monitor: str = "validation_accuracy"', 'monitor: str = "validation_loss"'
        ),
        Edit("config.py", "larger_is_better: bool = True", "larger_is_better: bool = False"),
        Edit(
            "metrics.py",
            '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            '{"cosine": keras.metrics.Mean()}',
        ),
        Edit("model.py", "-> keras.Model:", "-> dict[str, keras.Model]:"),
        Edit(
            "model.py",
            '"""Images float (batch, h, w, 1) -> features float32 (batch, FEATURES).\n',
            '"""Images -> features float32 (batch, FEATURES); features -> what the loss compares.\n',
        ),
        Edit(
            "model.py",
            "    return keras.Model(images, features)",
            """    inputs = keras.Input((FEATURES,), name="inputs")
    expanded = layers.Dense(EXPANDED, activation="relu")(inputs)
    expanded = layers.Dense(EXPANDED, use_bias=False, dtype=keras.config.floatx())(expanded)
    return {"encoder": keras.Model(images, features), "expander": keras.Model(inputs, expanded)}""",
        ),
        Edit("model.py", "FEATURES = 32\n", "FEATURES, EXPANDED = 32, 64\n"),
        function(
            "losses.py",
            "compute_loss",
            '''
def spread(values: tf.Tensor, weights: tf.Tensor, replica: Replica) -> dict[str, tf.Tensor]:
    """How far the examples of ALL replicas are from spreading in every direction.

    Args:
        values: float (rows, EXPANDED), of this replica.
        weights: float (rows,), 0 for padding, which doesn't count.
        replica: every replica computes the same two scalars and returns its share of them.
    """
    everywhere = replica.all_gather(values)
    there = tf.cast(replica.all_gather(weights) > 0, values.dtype)[:, tf.newaxis]
    number = tf.maximum(tf.reduce_sum(there), 2.0)
    mean = tf.reduce_sum(there * everywhere, axis=0) / number
    centered = there * (everywhere - mean)
    covariance = tf.matmul(centered, centered, transpose_a=True) / (number - 1.0)
    deviation = tf.sqrt(tf.linalg.diag_part(covariance) + 1e-4)
    off_diagonal = tf.linalg.set_diag(covariance, tf.zeros_like(deviation))
    return {
        "variance": tf.reduce_mean(tf.nn.relu(1.0 - deviation)) / replica.num_replicas,
        "covariance": tf.reduce_sum(tf.square(off_diagonal))
        / values.shape[1]
        / replica.num_replicas,
    }
''',
        ),
        whole(
            "steps.py",
            STEPS_TOP
            + '''from .losses import spread

INVARIANCE, VARIANCE, COVARIANCE = 25.0, 25.0, 1.0  # factors of the terms (Bardes et al., 2022)

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, the same with noise, weights (batch,)


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
    *views, weights = batch
    encoder, expander = run.models["encoder"], run.models["expander"]
    left, right = (
        expander(encoder(view, training=training), training=training) for view in views
    )  # (rows, EXPANDED)
    run.metrics["cosine"].update_state(-keras.losses.cosine_similarity(left, right), weights)
    invariance = tf.nn.compute_average_loss(
        tf.reduce_mean(tf.math.squared_difference(left, right), axis=1),
        sample_weight=weights,
        global_batch_size=replica.global_count,
    )
    terms = [spread(values, weights, replica) for values in (left, right)]
    variance, covariance = (
        tf.add_n([term[name] for term in terms]) / 2 for name in ("variance", "covariance")
    )
    regularization = replica.regularization(encoder) + replica.regularization(expander)
    loss = INVARIANCE * invariance + VARIANCE * variance + COVARIANCE * covariance
    return {
        "main": loss + tf.nn.scale_regularization_loss(regularization),
        "invariance": invariance,
        "variance": variance,
        "covariance": covariance,
    }


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS = ("invariance", "variance", "covariance")
EXAMPLES_INTERACT = True
''',
        ),
    ),
)

BYOL = change_of(
    name="byol with a linear probe beside it",
    project="contrastive",
    edits=(
        predictions('    return {"features": np.asarray(outputs)}'),
        Edit("config.py", '"validation_accuracy"', '"validation_probe_accuracy"'),
        Edit(
            "metrics.py",
            '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            '{\n        "cosine": keras.metrics.Mean(),\n'
            '        "probe_accuracy": keras.metrics.SparseCategoricalAccuracy(),\n    }',
        ),
        Edit(
            "data.py",
            "    return {split: (images, noisy(images)) for split, images in arrays.items()}",
            """    digits = {split: labels.astype("int64") for split, (_, labels) in splits.items()}
    return {
        split: (images, {"noisy": noisy(images), "digit": digits[split]})
        for split, images in arrays.items()
    }""",
        ),
        function(
            "model.py",
            "create_model",
            '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Bootstrap your own latent (Grill et al., 2020), and a probe of what the features hold.

    online: images -> features; predictor: features -> features of target, the moving average of
    online; probe: features -> logits.
    """
    layers, floatx = keras.layers, keras.config.floatx()
    online, target = _create_encoder(task, adapted), _create_encoder(task, adapted)
    target.trainable = False
    target.set_weights(online.get_weights())
    features = keras.Input((FEATURES,), name="features")
    x = layers.BatchNormalization(momentum=0.9)(layers.Dense(128)(features))
    x = layers.Dense(FEATURES, dtype=floatx)(layers.Activation("relu")(x))
    logits = layers.Dense(10, dtype=floatx)(layers.LayerNormalization(dtype=floatx)(features))
    return {
        "online": online,
        "target": target,
        "predictor": keras.Model(features, x),
        "probe": keras.Model(features, logits),
    }


def _create_encoder(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> features float32 (batch, FEATURES)."""
    layers = keras.layers
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input(adapted["shape"], name="images")
    x = images
    for filters in (32, 64):
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dropout(task.dropout)(layers.Flatten()(x))
    # Over the batch (of all replicas: the engine synchronizes it), without which BYOL may collapse.
    x = layers.BatchNormalization(momentum=0.9)(layers.Dense(128)(x))
    x = layers.Activation("relu")(x)
    return keras.Model(images, layers.Dense(FEATURES, dtype=keras.config.floatx())(x))
''',
        ),
        whole(
            "steps.py",
            STEPS_TOP
            + '''from .losses import compute_loss

DECAY = 0.98  # of the weights of the target in a step

# images, {"noisy": the same with noise, "digit": int64 (batch,)}, weights (batch,)
Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss; moves the target."""
    losses = _step(run, batch, replica, training=True)
    decay = DECAY ** (1 / replica.num_microbatches)
    online, target = run.models["online"], run.models["target"]
    for average, weight in zip(target.weights, online.weights, strict=True):
        average.assign(decay * average + (1 - decay) * weight)
    return losses


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    images, labels, weights = batch
    models = run.models
    features, goals = [], []
    for view in (images, labels["noisy"]):
        features.append(models["online"](view, training=training))
        # Its only gradient would be to what doesn't train; the inputs have none either.
        goals.append(tf.stop_gradient(models["target"](view, training=False)))
    guesses = [models["predictor"](x, training=training) for x in features]
    # Each view predicts what the target makes of the other.
    cosines = [
        -keras.losses.cosine_similarity(goal, guess)
        for goal, guess in zip(reversed(goals), guesses, strict=True)
    ]  # each (batch,)
    cosine = tf.add_n(cosines) / 2
    run.metrics["cosine"].update_state(cosine, weights)
    # The probe learns from labels, and the features don't learn from the probe.
    logits = models["probe"](tf.stop_gradient(features[0]), training=training)
    run.metrics["probe_accuracy"].update_state(labels["digit"], logits, weights)
    probe = tf.nn.sparse_softmax_cross_entropy_with_logits(labels["digit"], logits)
    per_example = 2.0 - 2.0 * cosine + probe  # (batch,)
    loss = compute_loss(per_example, weights, models["online"], replica)
    probe_loss = tf.nn.compute_average_loss(
        probe, sample_weight=weights, global_batch_size=replica.global_count
    )
    return {"main": loss, "probe": probe_loss}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS = ("probe",)
EXAMPLES_INTERACT = False
''',
        ),
    ),
)

DECOUPLED = change_of(
    name="decoupled distillation with a warm-up",
    project="distillation",
    edits=(
        function(
            "losses.py",
            "create_losses",
            '''
def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: (labels, predictions) -> one number per example."""
    hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"hard": hard, "decoupled": decoupled}


def decoupled(labels: tf.Tensor, taught: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Divergences from the teacher: on the right class against the rest, and among the rest.

    Decoupled knowledge distillation (Zhao et al., 2022). Both (batch, classes), divided by the
    temperature -> (batch,).
    """
    right = tf.one_hot(labels, logits.shape[1], True, False, dtype=tf.bool)

    def log_probabilities(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        others = tf.where(right, -1e9, logits)
        own = tf.reduce_sum(tf.where(right, logits, 0.0), axis=1)
        binary = tf.nn.log_softmax(tf.stack([own, tf.reduce_logsumexp(others, axis=1)], axis=1))
        return binary, tf.where(right, 0.0, tf.nn.log_softmax(others))

    binary, others = log_probabilities(logits)
    taught_binary, taught_others = log_probabilities(taught)
    of_right = tf.reduce_sum(tf.exp(taught_binary) * (taught_binary - binary), axis=1)
    # 0 x 1 at the right class
    of_others = tf.reduce_sum(tf.exp(taught_others) * (taught_others - others), axis=1)
    return ALPHA * of_right + BETA * of_others
''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nALPHA, BETA = 1.0, 4.0\n",
        ),
        Edit(
            "steps.py",
            "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels",
            "TEMPERATURE, WARM_UP = 4.0, 60  # WARM_UP: steps until the teacher counts in full",
        ),
        Edit(
            "steps.py",
            """    soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)
""",
            """    soft = run.losses["decoupled"](labels, taught / TEMPERATURE, logits / TEMPERATURE)  # (batch,)
""",
            "*",
        ),
        Edit(
            "steps.py",
            "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
            """    warm_up = tf.minimum(tf.cast(replica.step + 1, soft.dtype) / WARM_UP, 1.0)
    per_example = hard + warm_up * soft  # (batch,)
""",
            "train_step",
        ),
        Edit(
            "steps.py",
            "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
            "    per_example = hard + soft  # (batch,)\n",
        ),
    ),
)

VQ = change_of(
    name="codes are the nearest vectors of a codebook",
    project="vae",
    edits=(
        predictions("    return {}"),
        function(
            "model.py",
            "create_model",
            '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Images -> vectors (batch, PLACES, SIZE) -> the nearest of the codebook -> images."""
    layers, floatx = keras.layers, keras.config.floatx()
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input(adapted["shape"], name="images")
    shape = images.shape[1:]  # (h, w, 1)
    x = layers.Dense(128, activation="relu")(layers.Flatten()(images))
    x = layers.Dropout(task.dropout)(x)
    x = layers.Reshape((PLACES, SIZE), dtype=floatx)(layers.Dense(PLACES * SIZE, dtype=floatx)(x))
    encoder = keras.Model(images, x, name="encoder")
    vectors = keras.Input((PLACES, SIZE), name="vectors")
    quantizer = keras.Model(vectors, Codebook(CODES, dtype=floatx)(vectors), name="quantizer")
    quantized = keras.Input((PLACES, SIZE), name="quantized")
    x = layers.Dense(128, activation="relu")(layers.Flatten()(quantized))
    pixels = int(np.prod(shape))
    x = layers.Dense(pixels, activation="sigmoid", kernel_regularizer=l2, dtype=floatx)(x)
    decoder = keras.Model(quantized, layers.Reshape(shape, dtype=floatx)(x), name="decoder")
    return {"encoder": encoder, "quantizer": quantizer, "decoder": decoder}


@keras.saving.register_keras_serializable("my_experiment")
class Codebook(keras.layers.Layer):
    """The nearest vector of a codebook, and its number."""

    def __init__(self, codes: int, **options: Any) -> None:
        super().__init__(**options)
        self.codes = codes

    def build(self, shape: Any) -> None:
        """Create the codebook."""
        self.book = self.add_weight(
            shape=(self.codes, shape[-1]),
            initializer=keras.initializers.RandomNormal(stddev=0.5),
            name="book",
        )

    def call(self, vectors: Any) -> Any:
        """(batch, places, size) -> (batch, places, size), and int32 (batch, places)."""
        ops = keras.ops
        squares = ops.sum(ops.square(vectors[:, :, None, :] - self.book), axis=-1)
        codes = ops.argmin(squares, axis=-1)
        return ops.take(self.book, codes, axis=0), codes

    def get_config(self) -> dict[str, Any]:
        """What it is made from."""
        return super().get_config() | {"codes": self.codes}
''',
        ),
        Edit(
            "model.py",
            "CODE = 8  # numbers that an image is coded by",
            "PLACES, SIZE, CODES = 8, 4, 32  # an image is PLACES vectors of SIZE numbers, each of CODES",
        ),
        function(
            "losses.py",
            "kl_divergence",
            '''
def distance(vectors: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """The squared distance, (batch, places, size) -> (batch,)."""
    return tf.reduce_sum(tf.math.squared_difference(vectors, others), axis=[1, 2])
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
    """How many codes are in use: e to the entropy of their frequencies."""

    def __init__(self, codes: int) -> None:
        super().__init__(name="perplexity")
        self._counts = self.add_variable((codes,), "zeros", name="counts")

    def update_state(self, codes: Any, sample_weight: Any) -> None:
        """Add codes int (batch, places) with weights (batch,)."""
        counts = tf.one_hot(codes, self._counts.shape[0], dtype=sample_weight.dtype)
        self._counts.assign_add(tf.einsum("bpc,b->c", counts, sample_weight))

    def result(self) -> tf.Tensor:
        """A scalar from 1 to the number of codes."""
        counts = tf.convert_to_tensor(self._counts)
        shares = tf.math.divide_no_nan(counts, tf.reduce_sum(counts))
        return tf.exp(-tf.reduce_sum(tf.math.xlogy(shares, shares)))


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"perplexity": Perplexity(CODES)}
''',
        ),
        whole(
            "steps.py",
            STEPS_TOP
            + '''from .losses import compute_loss, distance, means

COMMITMENT = 0.25  # how strongly vectors are drawn to the codebook, which is drawn to them

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


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
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    vectors = encoder(images, training=training)  # (batch, places, size)
    nearest, codes = run.models["quantizer"](vectors, training=training)
    # Straight through: the decoder gets `nearest`, its gradient goes to `vectors`.
    passed = vectors + tf.stop_gradient(nearest - vectors)
    error = run.losses["main"](images, decoder(passed, training=training))  # (batch,)
    codebook = distance(tf.stop_gradient(vectors), nearest)  # (batch,)
    commitment = distance(vectors, tf.stop_gradient(nearest))  # (batch,)
    run.metrics["perplexity"].update_state(codes, weights)
    loss = compute_loss(error + codebook + COMMITMENT * commitment, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "quantization": codebook}, weights, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS = ("error", "quantization")
EXAMPLES_INTERACT = False
''',
        ),
    ),
)

L2SP = change_of(
    name="l2 towards the start and gradual unfreezing",
    project="finetuning",
    edits=(
        function(
            "callbacks.py",
            "create_callbacks",
            '''
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Train the last layer alone; every --frozen-steps steps one more layer, from the top."""

    def layers(event: Event) -> list[keras.layers.Layer]:
        found = event.run.model.get_layer("backbone").layers
        return [layer for layer in reversed(found) if isinstance(layer, keras.layers.Conv2D)]

    def set_trainable(event: Event, first: int) -> None:
        """The `first` layers from the top train, the others don't."""
        for i, layer in enumerate(layers(event)):
            layer.trainable = i < first

    return [
        at_step(0, lambda event: set_trainable(event, 0)),
        at_step(task.frozen_steps, lambda event: set_trainable(event, 1)),
        at_step(2 * task.frozen_steps, lambda event: set_trainable(event, 2)),
    ]
''',
        ),
        Edit("model.py", "-> keras.Model:", "-> dict[str, keras.Model]:"),
        Edit(
            "model.py",
            '"""Images float (batch, h, w, 1) -> logits float32 (batch, classes)."""',
            '"""Images -> logits float32 (batch, classes); and the backbone as it was, never trained."""',
        ),
        Edit(
            "model.py",
            "    return keras.Model(images, logits(features))",
            '    return {"main": keras.Model(images, logits(features)), "start": load_frozen(BACKBONE)}',
        ),
        Edit("model.py", "import load_in_precision", "import load_frozen, load_in_precision"),
        Edit(
            "config.py",
            "    frozen_steps: int = 7  # steps in which the last layer trains alone\n",
            "    frozen_steps: int = 7  # steps until each further layer trains, from the top\n    l2_start: float = 1e-2  # factor of the squared distance of the backbone from its start\n",
        ),
        Edit(
            "losses.py",
            "    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))",
            "    regularization = replica.regularization(model) + away / replica.num_microbatches\n"
            "    return loss + tf.nn.scale_regularization_loss(regularization)",
        ),
        Edit(
            "losses.py",
            "    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica\n",
            "    per_example: tf.Tensor,\n    weights: tf.Tensor,\n    model: keras.Model,\n    replica: Replica,\n    away: tf.Tensor,\n",
        ),
        Edit(
            "losses.py",
            "        replica: `replica.global_count`",
            "        away: a penalty for the weights, a scalar.\n        replica: `replica.global_count`",
        ),
        Edit(
            "losses.py",
            "def compute_loss(",
            '''def distance_from_start(run: Run) -> tf.Tensor:
    """How far the kernels of the backbone have moved (L2-SP, Li et al., 2018), a scalar."""
    now, start = run.model.get_layer("backbone"), run.models["start"]
    squares = [
        tf.reduce_sum(tf.square(tf.convert_to_tensor(a.kernel) - tf.convert_to_tensor(b.kernel)))
        for a, b in zip(now.layers, start.layers, strict=True)
        if isinstance(a, keras.layers.Conv2D)
    ]
    return run.task.l2_start * tf.add_n(squares)


def compute_loss(''',
        ),
        Edit("losses.py", "import Replica\n", "import Replica, Run\n"),
        Edit(
            "steps.py",
            "compute_loss(per_example, weights, run.model, replica)",
            "compute_loss(\n            per_example, weights, run.model, replica, distance_from_start(run)\n        )",
            "*",
        ),
        Edit("steps.py", "import compute_loss\n", "import compute_loss, distance_from_start\n"),
    ),
)

QUANTILES = change_of(
    name="quantiles that cannot cross",
    project="forecasting",
    edits=(
        predictions('    return {"quantiles": np.asarray(outputs).reshape(len(outputs), -1)}'),
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            "PAST, FUTURE = 24, 6  # hours\nQUANTILES = (0.1, 0.5, 0.9)  # that are forecast, the median in the middle\n",
        ),
        Edit("model.py", "COLUMNS, FUTURE, PAST", "COLUMNS, FUTURE, PAST, QUANTILES"),
        Edit(
            "model.py",
            "forecast (batch, FUTURE), in units",
            "quantiles (batch, FUTURE, 3), in units",
        ),
        Edit(
            "model.py",
            "    x = layers.Dense(FUTURE, dtype=floatx)(x)\n",
            """    x = layers.Dense(FUTURE * len(QUANTILES), dtype=floatx)(x)
    x = layers.Reshape((FUTURE, len(QUANTILES)), dtype=floatx)(x)
    median, steps = x[..., 1:2], ops.softplus(x)  # distances are positive: no quantiles cross
    x = ops.concatenate([median - steps[..., :1], median, median + steps[..., 2:]], axis=-1)
""",
        ),
        Edit(
            "metrics.py",
            '"""The mean absolute error of each hour of the forecast."""',
            '"""The mean absolute error of the median by hour, and how often 80% intervals are right."""',
        ),
        Edit(
            "metrics.py",
            '    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}',
            '    names = [*(f"mae_{hour}" for hour in range(1, FUTURE + 1)), "coverage", "width"]\n    return {name: keras.metrics.Mean() for name in names}',
        ),
        function(
            "losses.py",
            "create_losses",
            '''
def create_losses(task: TaskConfig) -> dict[str, Any]:
    """The pinball loss: of labels (batch, FUTURE) and quantiles (batch, FUTURE, 3)."""

    def pinball(labels: tf.Tensor, quantiles: tf.Tensor) -> tf.Tensor:
        """Twice the mean over the quantiles, (batch, FUTURE): for a median, the absolute error."""
        error = labels[..., tf.newaxis] - quantiles
        levels = tf.constant(QUANTILES, error.dtype)
        return 2 * tf.reduce_mean(tf.maximum(levels * error, (levels - 1) * error), axis=-1)

    return {"main": pinball}
''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import QUANTILES\n",
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
    future = tf.where(weights > 0, future, tf.stop_gradient(median))  # without NaN: 0 x NaN is NaN
    for hour in range(1, FUTURE + 1):
        absolute = tf.abs(future - median)[:, hour - 1]  # (batch,)
        run.metrics[f"mae_{hour}"].update_state(absolute, weights[:, hour - 1])
    inside = tf.cast((low <= future) & (future <= high), weights.dtype)
    run.metrics["coverage"].update_state(inside, weights)
    run.metrics["width"].update_state(high - low, weights)
    per_value = run.losses["main"](future, quantiles)  # (batch, FUTURE)
    return {"main": compute_loss(per_value, weights, run.model, replica)}
''',
        ),
    ),
)

STUDENT_T = change_of(
    name="student t likelihood with reversible instance normalization",
    project="forecasting",
    edits=(
        predictions(
            '    return {"location": np.asarray(outputs["location"]), "scale": np.asarray(outputs["scale"])}'
        ),
        function(
            "data.py",
            "create_augment",
            '''
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A sensor fails at random hours of the past, so that the model learns to do without."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        past, future, weights = batch
        fails = tf.random.stateless_uniform(past.shape, seed) < FAILS
        return tf.where(fails, tf.constant(np.nan, past.dtype), past), future, weights

    return augment
''',
        ),
        Edit("data.py", "import numpy as np\n", "import numpy as np\nimport tensorflow as tf\n"),
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            "PAST, FUTURE = 24, 6  # hours\nFAILS = 0.1  # how often a value of the past is left out in training\n",
        ),
        Edit("model.py", "COLUMNS, FUTURE, PAST", "COLUMNS, FUTURE, PAST, TARGET"),
        function(
            "model.py",
            "create_model",
            '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Past float (batch, PAST, columns) -> {"location", "scale"} (batch, FUTURE), of the data.

    Each window is normalized by its own mean and deviation, and forecasts are scaled back by those
    of the target (Kim et al., 2022). NaN is missing.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    mean, deviation = adapted["mean"], np.sqrt(adapted["variance"])
    past = keras.Input((PAST, len(COLUMNS)), name="past")
    scaled = (past - mean.astype(floatx)) / deviation.astype(floatx)
    missing = ops.isnan(scaled)
    there = ops.cast(ops.logical_not(missing), floatx)
    filled = ops.where(missing, 0.0, scaled)
    number = ops.sum(there, axis=1, keepdims=True) + 1.0  # one more: the mean of all the data
    own_mean = ops.sum(filled, axis=1, keepdims=True) / number  # (batch, 1, columns)
    squares = ops.sum(there * ops.square(filled - own_mean), axis=1, keepdims=True)
    own_deviation = ops.sqrt(squares / number + 0.01)
    normal = there * (filled - own_mean) / own_deviation
    x = layers.Concatenate()([normal, 1.0 - there, ops.repeat(own_mean, PAST, axis=1)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(2 * FUTURE, dtype=floatx)(x)
    center, width = own_mean[:, :, TARGET], own_deviation[:, :, TARGET]  # (batch, 1)
    unit, zero = float(deviation[TARGET]), float(mean[TARGET])
    location = zero + unit * (center + width * x[:, :FUTURE])
    scale = unit * width * (ops.softplus(x[:, FUTURE:]) + 1e-2)
    return keras.Model(past, {"location": location, "scale": scale})
''',
        ),
        function(
            "losses.py",
            "create_losses",
            '''
def create_losses(task: TaskConfig) -> dict[str, Any]:
    """The negative log likelihood of errors under Student's t, for outliers."""

    def student_t(error: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        """Both (batch, FUTURE), in units of the data -> (batch, FUTURE)."""
        constant = (
            math.lgamma((FREEDOM + 1) / 2)
            - math.lgamma(FREEDOM / 2)
            - 0.5 * math.log(math.pi * FREEDOM)
        )
        power = (FREEDOM + 1) / 2 * tf.math.log1p(tf.square(error / scale) / FREEDOM)
        return tf.math.log(scale) + power - constant

    return {"main": student_t}
''',
        ),
        Edit("losses.py", "from typing import Any\n", "import math\nfrom typing import Any\n"),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nFREEDOM = 5.0  # degrees of freedom\n",
        ),
        Edit(
            "metrics.py",
            "for hour in range(1, FUTURE + 1)}",
            'for hour in range(1, FUTURE + 1)} | {\n        "spread": keras.metrics.Mean()\n    }',
        ),
        Edit(
            "steps.py",
            '"""The mean squared error of the values that are there."""',
            '"""The negative log likelihood of the values that are there."""',
        ),
        Edit(
            "steps.py",
            "    forecast = run.model(past, training=training)  # (batch, FUTURE)\n",
            '    outputs = run.model(past, training=training)\n    forecast, scale = outputs["location"], outputs["scale"]  # (batch, FUTURE)\n',
        ),
        Edit(
            "steps.py",
            '    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}',
            '    run.metrics["spread"].update_state(scale, weights)\n    per_value = run.losses["main"](error, scale)  # (batch, FUTURE)\n    return {"main": compute_loss(per_value, weights, run.model, replica)}',
        ),
    ),
)

WGAN = change_of(
    name="wasserstein with a gradient penalty and three critic steps",
    project="gan",
    edits=(
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
        Edit("config.py", "learning_rate: float = 1e-3", "learning_rate: float = 5e-4"),
        function(
            "losses.py",
            "create_losses",
            '''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; scores (batch, 1) give one number per example (Arjovsky et al., 2017)."""

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Minus the critic's estimate of the distance; negative for a good critic."""
        return tf.squeeze(on_generated - on_real, axis=1)

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the scores of generated images are high; of any sign."""
        return -tf.squeeze(on_generated, axis=1)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
        ),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
            "",
        ),
        Edit(
            "optimizer.py",
            "    # Little momentum, because each model's task changes with the other (Radford et al., 2015).\n",
            "    # Without momentum (Gulrajani et al., 2017). The critic makes CRITIC_STEPS updates in each step.\n",
        ),
        Edit(
            "optimizer.py",
            '"generator": keras.optimizers.Adam(schedule, beta_1=0.5)',
            '"generator": adam(steps)',
        ),
        Edit(
            "optimizer.py",
            '"discriminator": keras.optimizers.Adam(schedule, beta_1=0.5)',
            '"discriminator": adam(CRITIC_STEPS * steps)',
        ),
        Edit(
            "optimizer.py",
            "    # Without",
            """
    def adam(updates: int) -> keras.optimizers.Optimizer:
        schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=updates)
        return keras.optimizers.Adam(schedule, beta_1=0.0, beta_2=0.9)

    # Without""",
        ),
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nCRITIC_STEPS = 3  # for each step of the generator\n",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss\nfrom .optimizer import CRITIC_STEPS\n\nPENALTY = 10.0\n",
        ),
        function(
            "steps.py",
            "discriminator_step",
            '''
def discriminator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The critic's loss of this replica's part of a batch; with new latents each time."""
    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    seeds = tf.random.experimental.stateless_split(replica.seed, 2)
    latents = tf.random.stateless_normal(latents.shape, seeds[0], dtype=latents.dtype)
    generated = tf.stop_gradient(generator(latents, training=True))  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    share = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seeds[1], dtype=images.dtype)
    between = share * images + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        scores = discriminator(between, training=True)  # an image's score depends on it alone
    slopes = tape.gradient(scores, between)
    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)  # (batch,)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    per_example += PENALTY * tf.square(norms - 1)
    return {"discriminator": compute_loss(per_example, weights, discriminator, replica)}
''',
        ),
        Edit(
            "steps.py",
            "    _, latents, weights = batch\n",
            "    images, latents, weights = batch\n",
        ),
        Edit(
            "steps.py",
            '    per_example = run.losses["generator"](on_generated)  # (batch,)\n',
            '    per_example = run.losses["generator"](on_generated)  # (batch,)\n'
            '    run.metrics["frechet"].update_state(images, generated, weights)\n'
            '    run.metrics["nearest_distance"].update_state(generated, weights)\n',
        ),
        Edit(
            "steps.py",
            "TRAIN_STEPS = (discriminator_step, generator_step)",
            "TRAIN_STEPS = (*[discriminator_step] * CRITIC_STEPS, generator_step)",
        ),
    ),
)

HINGE = change_of(
    name="hinge loss with spectral norm and an averaged generator",
    project="gan",
    edits=(
        function(
            "losses.py",
            "create_losses",
            '''
def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example (Miyato et al., 2018)."""

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """0 where real images have logits of at least 1, generated ones of at most -1."""
        return tf.squeeze(tf.nn.relu(1 - on_real) + tf.nn.relu(1 + on_generated), axis=1)

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are high on generated images; of any sign."""
        return -tf.squeeze(on_generated, axis=1)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
        ),
        Edit(
            "model.py",
            """    return {
        "generator": _create_generator(task, height, width, channels),
""",
            """    generator = _create_generator(task, height, width, channels, "generator")
    averaged = _create_generator(task, height, width, channels, "averaged")
    averaged.trainable = False
    averaged.set_weights(generator.get_weights())
    return {
        "generator": generator,
        "averaged": averaged,  # the moving average of its weights, which is judged
""",
        ),
        Edit(
            "model.py",
            "def _create_generator(task: TaskConfig, height: int, width: int, channels: int) -> keras.Model:",
            "def _create_generator(\n    task: TaskConfig, height: int, width: int, channels: int, name: str\n) -> keras.Model:",
        ),
        Edit(
            "model.py",
            'return keras.Model(latents, last(x), name="generator")',
            "return keras.Model(latents, last(x), name=name)",
        ),
        Edit(
            "model.py",
            'x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)',
            'convolve = layers.Conv2D(filters, 4, strides=2, padding="same")\n        x = layers.SpectralNormalization(convolve)(x)',
        ),
        Edit(
            "model.py",
            'logits = layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x)',
            'floatx = keras.config.floatx()\n    score = layers.Dense(1, dtype=floatx, name="logits")\n    logits = layers.SpectralNormalization(score, dtype=floatx)(x)',
        ),
        Edit("pictures.py", 'run.models["generator"]', 'run.models["averaged"]', "*"),
        Edit(
            "optimizer.py",
            """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
""",
            """    slow, fast = (
        keras.optimizers.schedules.CosineDecay(factor * task.learning_rate, decay_steps=steps)
        for factor in (1.0, 4.0)
    )
""",
        ),
        Edit(
            "optimizer.py",
            '"generator": keras.optimizers.Adam(schedule, beta_1=0.5)',
            '"generator": keras.optimizers.Adam(slow, beta_1=0.5)',
        ),
        Edit(
            "optimizer.py",
            '"discriminator": keras.optimizers.Adam(schedule, beta_1=0.5)',
            '"discriminator": keras.optimizers.Adam(fast, beta_1=0.5)',
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import compute_loss\n\nDECAY = 0.98  # of the averaged generator's weights in a step\n",
        ),
        Edit(
            "steps.py",
            '    per_example = run.losses["generator"](on_generated)  # (batch,)\n',
            """    per_example = run.losses["generator"](on_generated)  # (batch,)
    decay = DECAY ** (1 / replica.num_microbatches)
    for average, weight in zip(run.models["averaged"].weights, generator.weights, strict=True):
        average.assign(decay * average + (1 - decay) * weight)
""",
        ),
        Edit(
            "steps.py",
            'generator, discriminator = run.models["generator"], run.models["discriminator"]',
            'generator, discriminator = run.models["averaged"], run.models["discriminator"]',
            "validation_step",
        ),
    ),
)

TIED = change_of(
    name="tied embeddings with rms norm and z-loss",
    project="language_model",
    edits=(
        Edit(
            "model.py",
            "# TODO(4)",
            '''@keras.saving.register_keras_serializable("my_experiment")
class Tied(keras.layers.Layer):
    """A table of vectors that embeds tokens, and gives the logits of tokens for vectors."""

    def __init__(self, tokens: int, width: int, **options: Any) -> None:
        super().__init__(**options)
        self.tokens, self.width = tokens, width
        self.table = self.add_weight(
            shape=(tokens, width),
            initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
            name="table",
        )
        self.built = True

    def call(self, x: Any, reverse: bool = False) -> Any:
        """Tokens (batch, T) -> (batch, T, width), or in reverse (batch, T, width) -> logits."""
        ops = keras.ops
        if reverse:  # in full precision
            floatx = keras.config.floatx()
            return ops.matmul(ops.cast(x, floatx), ops.cast(ops.transpose(self.table), floatx))
        return ops.take(self.table, x, axis=0) * self.width**0.5

    def get_config(self) -> dict[str, Any]:
        """What it is made from."""
        return super().get_config() | {"tokens": self.tokens, "width": self.width}


# TODO(4)''',
        ),
        Edit(
            "model.py",
            "x = layers.Embedding(TOKENS, task.width)(tokens)",
            "tied = Tied(TOKENS, task.width)\n    x = tied(tokens)",
        ),
        Edit("model.py", "layers.LayerNormalization()", "layers.RMSNormalization()", "*"),
        Edit(
            "model.py",
            '    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)',
            "    logits = tied(x, reverse=True)",
        ),
        function(
            "losses.py",
            "create_losses",
            '''
def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: (targets, logits) -> one number per token."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def with_z_loss(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Keeps the normalizer of the softmax near 1, too (Chowdhery et al., 2022)."""
        return cross_entropy(targets, logits) + Z_LOSS * tf.square(
            tf.reduce_logsumexp(logits, axis=-1)
        )

    return {"main": with_z_loss}
''',
        ),
        Edit(
            "losses.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nZ_LOSS = 1e-4\n",
        ),
        function(
            "optimizer.py",
            "create_optimizer",
            '''
@keras.saving.register_keras_serializable("my_experiment")
class Trapezoid(keras.optimizers.schedules.LearningRateSchedule):
    """Rises, stays, and falls to 0 in the last part of the run (Zhai et al., 2022)."""

    def __init__(self, peak: float, steps: int, rise: int, fall: int) -> None:
        self.peak, self.steps, self.rise, self.fall = peak, steps, rise, fall

    def __call__(self, step: Any) -> tf.Tensor:
        """The learning rate of the update after `step` others."""
        step = tf.cast(step, tf.float32)
        up, down = (step + 1) / max(1, self.rise), (self.steps - step) / max(1, self.fall)
        return self.peak * tf.clip_by_value(tf.minimum(up, down), 0.0, 1.0)

    def get_config(self) -> dict[str, Any]:
        """What it is made from."""
        return {"peak": self.peak, "steps": self.steps, "rise": self.rise, "fall": self.fall}


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    schedule = Trapezoid(task.learning_rate, steps, int(task.warmup * steps), int(0.3 * steps))
    optimizer = keras.optimizers.AdamW(schedule, weight_decay=0.05, beta_2=0.98)
    optimizer.exclude_from_weight_decay(var_names=["bias", "scale", "table", "embeddings"])
    return optimizer
''',
        ),
        Edit("optimizer.py", "import keras\n", "from typing import Any\n\nimport keras\n"),
    ),
)

TWO_PASSES = change_of(
    name="scheduled sampling in two passes",
    project="language_model",
    edits=(
        function(
            "steps.py",
            "train_step",
            '''
def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss.

    More and more tokens of the answer are replaced by what the model itself would have written
    there (Mihaylova & Martins, 2019); the targets stay.
    """
    tokens, targets, weights = batch
    first = run.model(tokens, training=False)  # (batch, T, TOKENS)
    own = tf.stop_gradient(tf.argmax(first, axis=-1, output_type=tf.int32))  # (batch, T)
    # What is predicted at a place is the input of the next one.
    own, is_answer = (tf.pad(x[:, :-1], [[0, 0], [1, 0]]) for x in (own, weights != 0))
    rate = MOST * tf.minimum(tf.cast(replica.step, tf.float32) / RISE, 1.0)
    chosen = tf.random.stateless_uniform(tokens.shape, replica.seed) < rate
    logits = run.model(tf.where(chosen & is_answer, own, tokens), training=True)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    run.metrics["exact_match"].update_state(targets, likeliest, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}
''',
        ),
        Edit(
            "steps.py",
            "# TODO(11)",
            "MOST, RISE = 0.25, 400  # the share of replaced tokens, and steps until it is reached\n\n\n# TODO(11)",
        ),
    ),
)

DEEP = change_of(
    name="deep supervision with a soft dice loss",
    project="segmentation",
    edits=(
        Edit(
            "predictions.py",
            "labels = np.argmax(outputs, axis=-1)",
            'labels = np.argmax(outputs["full"], axis=-1)',
        ),
        Edit(
            "pictures.py",
            "predict_in_parts(run.model, images).argmax",
            'predict_in_parts(run.model, images)["full"].argmax',
        ),
        Edit(
            "model.py",
            "-> logits float32 (batch, h, w, classes).",
            '-> logits {"full": float32 (batch, h, w, classes), "half": (batch, h/2, w/2, classes)}.',
        ),
        Edit(
            "model.py",
            "        x = _convolve_twice(x, task.width * 2**level)\n    # Full",
            """        x = _convolve_twice(x, task.width * 2**level)
        if level == 1:
            half = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name="half")(x)
    # Full""",
        ),
        Edit(
            "model.py",
            "return keras.Model(images, logits)",
            'return keras.Model(images, {"full": logits, "half": half})',
        ),
        Edit(
            "losses.py",
            "# TODO(10)",
            '''def soft_dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the Dice coefficient, a mean over the classes in an image, (batch,).

    Args:
        labels: int (batch, h, w); ignored pixels don't count.
        logits: float (batch, h, w, classes).
    """
    counts = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    right = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)  # of IGNORED all 0
    probabilities = counts * tf.nn.softmax(logits)
    both = tf.reduce_sum(right * probabilities, axis=[1, 2])  # (batch, classes)
    sizes = tf.reduce_sum(right + probabilities, axis=[1, 2])
    present = tf.cast(tf.reduce_any(right > 0, axis=[1, 2]), logits.dtype)
    dice = (2 * both + 1.0) / (sizes + 1.0)
    number = tf.reduce_sum(present, axis=1)
    return tf.math.divide_no_nan(tf.reduce_sum(present * (1 - dice), axis=1), number)


# TODO(10)''',
        ),
        whole(
            "steps.py",
            STEPS_TOP.replace("import keras\n", "")
            + '''from .losses import average_over_pixels, compute_loss, soft_dice
from .metrics import pixel_weights

HALF = 0.4  # factor of the loss at half resolution

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch, h, w), weights (batch,)


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
    images, labels, weights = batch
    outputs = run.model(images, training=training)
    logits, coarse_labels = outputs["full"], labels[:, ::2, ::2]  # as "nearest"

    def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
        return average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)

    dice = soft_dice(labels, logits)  # (batch,)
    per_example = cross_entropy(labels, logits) + dice
    per_example += HALF * cross_entropy(coarse_labels, outputs["half"])
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    dice = tf.nn.compute_average_loss(
        dice, sample_weight=weights, global_batch_size=replica.global_count
    )
    return {"main": compute_loss(per_example, weights, run.model, replica), "dice": dice}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS = ("dice",)
EXAMPLES_INTERACT = False
''',
        ),
    ),
)

HARD_PIXELS = change_of(
    name="curriculum from all pixels to the hardest",
    project="segmentation",
    edits=(
        Edit(
            "losses.py",
            "# TODO(10)",
            '''def hardest_pixels(per_pixel: tf.Tensor, labels: tf.Tensor, share: tf.Tensor) -> tf.Tensor:
    """The mean loss of the hardest pixels of each example, float (batch,).

    Args:
        per_pixel: float (batch, h, w), 0 for ignored pixels.
        labels: int (batch, h, w).
        share: which part of an example's pixels that aren't ignored, a scalar in (0, 1].
    """
    rows, pixels = per_pixel.shape[0], per_pixel.shape[1] * per_pixel.shape[2]
    hardest = tf.sort(tf.reshape(per_pixel, (rows, pixels)), axis=1, direction="DESCENDING")
    counted = tf.math.count_nonzero(labels != IGNORED, axis=[1, 2], dtype=per_pixel.dtype)
    kept = tf.math.ceil(share * counted)[:, tf.newaxis]  # (batch, 1)
    within = tf.range(pixels, dtype=per_pixel.dtype) < kept
    total = tf.reduce_sum(tf.where(within, hardest, 0.0), axis=1)
    return tf.math.divide_no_nan(total, kept[:, 0])


# TODO(10)''',
        ),
        Edit(
            "steps.py",
            "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
            """    passed = tf.minimum(tf.cast(replica.step, per_pixel.dtype) / HARDEN, 1.0)
    share = 1.0 - passed * (1.0 - HARDEST)
    per_example = hardest_pixels(per_pixel, labels, share)  # (batch,)
""",
            "train_step",
        ),
        Edit(
            "steps.py",
            "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
            "    per_example = average_over_pixels(per_pixel, labels, 1.0)  # (batch,), of all pixels\n",
            "*",
        ),
        Edit(
            "steps.py",
            "import average_over_pixels, compute_loss\n",
            "import average_over_pixels, compute_loss, hardest_pixels\n",
        ),
        Edit(
            "steps.py",
            "# TODO(11)",
            "HARDEST, HARDEN = 0.25, 150  # share of the pixels at the end, and steps until then\n\n\n# TODO(11)",
        ),
        Edit(
            "config.py",
            "    foreground_weight: float = 2.0  # weight of a digit's pixel in the loss; the background's is 1\n",
            "",
        ),
        Edit(
            "config.py",
            '("learning_rate", "width", "foreground_weight")',
            '("learning_rate", "width")',
        ),
    ),
)

SURVIVAL = change_of(
    name="survival with censored times",
    project="tabular_regression",
    edits=(
        PICTURES,
        whole(
            "metrics.py",
            '''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Means, which accept `sample_weight`: the Brier score of surviving until HORIZON."""
    return {"brier": keras.metrics.Mean()}
''',
        ),
        Edit(
            "predictions.py",
            '    return {"progression": np.asarray(outputs)[:, 0]}',
            "    survival = np.cumprod(1 / (1 + np.exp(np.asarray(outputs))), axis=1)  # (n, INTERVALS)\n"
            '    return {"survival": survival, "expected_intervals": survival.sum(axis=1)}',
        ),
        Edit(
            "data.py",
            '        return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]\n',
            """        # Some leave the study before anything happens: then the time is when they left.
        happened = target[rows] <= left[rows]
        times = np.minimum(target[rows], left[rows])
        intervals = np.minimum(times // LENGTH, INTERVALS - 1)
        labels = np.stack([intervals, happened], axis=1).astype(np.float32)
        return {"numeric": numeric, "sex": sex}, labels
""",
        ),
        Edit(
            "data.py",
            "    category = columns.index(CATEGORY)\n",
            "    category = columns.index(CATEGORY)\n    left = np.random.default_rng(LEFT_SEED).uniform(60, 420, len(target)).astype(np.float32)\n",
        ),
        Edit(
            "data.py",
            "\n# scikit-learn's documentation",
            "LEFT_SEED, LENGTH, INTERVALS = 0, 35, 10  # time is divided into intervals of this length\n\n# scikit-learn's documentation",
        ),
        Edit(
            "data.py",
            "    float32 (n, 1), weights",
            "    float32 (n, 2), the interval and whether something happened in it (1) or not (0), weights",
        ),
        whole(
            "losses.py",
            '''
"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
from .data import INTERVALS


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def likelihood(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Minus its logarithm: labels (batch, 2), logits of hazards (batch, INTERVALS) -> (batch,).

        Who leaves in an interval has survived those before it (Gensheimer & Narasimhan, 2019).
        """
        interval, happened = labels[:, :1], labels[:, 1:]  # (batch, 1)
        numbers = tf.range(INTERVALS, dtype=labels.dtype)
        survived = tf.cast(numbers < interval, logits.dtype) * tf.nn.softplus(logits)
        ended = tf.cast(numbers == interval, logits.dtype) * happened * tf.nn.softplus(-logits)
        return tf.reduce_sum(survived + ended, axis=1)

    return {"main": likelihood}


def brier(labels: tf.Tensor, logits: tf.Tensor, horizon: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The squared error of the probability to survive `horizon` intervals, and whether it is known.

    Both float (batch,); not known of those who left before.
    """
    interval, happened = labels[:, 0], labels[:, 1]
    survival = tf.exp(-tf.reduce_sum(tf.nn.softplus(logits[:, :horizon]), axis=1))
    survived = tf.cast(interval >= horizon, logits.dtype)
    return tf.square(survived - survival), tf.maximum(survived, happened)


def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss, a float scalar; both float (batch,)."""
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
''',
        ),
        Edit(
            "model.py",
            '        "label_mean": labels.mean(axis=0),\n        "label_variance": labels.var(axis=0),\n',
            "",
        ),
        Edit("model.py", 'inputs, labels, _ = datasets["train"]', 'inputs, *_ = datasets["train"]'),
        Edit(
            "model.py",
            "-> float32 (batch, 1).",
            "-> float32 (batch, INTERVALS).\n\n    Logits of the hazard: that it happens in an interval if it didn't before.",
        ),
        Edit(
            "model.py",
            "    Numeric inputs may be NaN. Inputs and predictions are in units of the data, so the exported\n    model needs no scaling around it.\n",
            "    Numeric inputs may be NaN, in units of the data.\n",
        ),
        Edit(
            "model.py",
            """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))""",
            """    x = layers.Concatenate()([x, hidden])
    return keras.Model(inputs, layers.Dense(INTERVALS, dtype=floatx, name="hazards")(x))""",
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import INTERVALS\n",
        ),
        Edit(
            "steps.py",
            "from .losses import compute_loss\n",
            "from .losses import brier, compute_loss\n\nHORIZON = 4  # intervals\n",
        ),
        Edit(
            "steps.py",
            "# inputs, labels (batch, 1), weights",
            "# inputs, labels (batch, 2), weights",
        ),
        Edit("steps.py", "  # (batch, 1)\n", "  # (batch, INTERVALS)\n", "*"),
        Edit(
            "steps.py",
            '    run.metrics["r2"].update_state(labels, predictions, weights)\n',
            "",
            "*",
        ),
        Edit(
            "steps.py",
            '    run.metrics["mae"].update_state(labels, predictions, weights)\n',
            '    squares, known = brier(labels, predictions, HORIZON)  # (batch,)\n    run.metrics["brier"].update_state(squares, known * weights)\n',
            "*",
        ),
    ),
)

MONOTONE = change_of(
    name="additive model with monotone columns",
    project="tabular_regression",
    edits=(
        Edit(
            "model.py",
            """    x = layers.Concatenate()([numeric, ops.cast(missing, floatx), sex])  # (batch, features)

    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)
    hidden = layers.Dropout(task.dropout)(hidden)
    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
""",
            """    # A sum of a curve for each column, those of RISING never falling, and a linear part.
    linear = layers.Concatenate()([ops.cast(missing, floatx), sex])
    terms = [layers.Dense(1, dtype=floatx, name="linear")(linear)]
    for i in range(int(adapted["mean"].shape[0])):
        rises = i in RISING
        constraint = keras.constraints.NonNeg() if rises else None
        # Small, so that the sum starts near the mean.
        start = keras.initializers.RandomUniform(0.0 if rises else -0.1, 0.1, seed=i)
        options = {"kernel_initializer": start, "kernel_constraint": constraint, "dtype": floatx}
        curve = layers.Dense(task.width // 4, activation="tanh", **options)(numeric[:, i : i + 1])
        terms.append(layers.Dense(1, use_bias=False, **options)(curve))
    x = layers.Add(dtype=floatx)(terms)  # (batch, 1)
""",
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\n\nRISING = (1, 2)  # columns of which more never lowers the prediction: bmi and blood pressure\n",
        ),
        Edit(
            "losses.py",
            '    squared_error = keras.losses.MeanSquaredError(reduction="none")\n',
            '    huber = keras.losses.Huber(delta=1.0, reduction="none")\n',
        ),
        Edit("losses.py", "return squared_error(", "return huber("),
        Edit("losses.py", "about 1 - R2 on average", "half the square of small errors"),
        Edit(
            "config.py",
            "    dropout: float = 0.3  # fraction of hidden units that training drops; 0 disables\n",
            "",
        ),
        Edit(
            "config.py",
            """        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
""",
            "",
        ),
        Edit(
            "config.py",
            "width: int = 32  # units of the hidden layer",
            "width: int = 32  # a curve has a quarter as many units",
        ),
        Edit(
            "optimizer.py",
            "AdamW(schedule, weight_decay=task.weight_decay)",
            "Nadam(schedule, weight_decay=task.weight_decay)",
        ),
    ),
)

UNCERTAINTY = change_of(
    name="heads weighted by learned uncertainty",
    project="two_heads",
    edits=(
        predictions(
            "    return {\n"
            '        f"{head}_probability": np.asarray(tf.nn.softmax(logits)) for head, logits in outputs.items()\n'
            "    }"
        ),
        Edit(
            "model.py",
            "# TODO(4)",
            '''@keras.saving.register_keras_serializable("my_experiment")
class Uncertainty(keras.layers.Layer):
    """Passes features on, and holds the log variance of each head (Kendall et al., 2018)."""

    def __init__(self, heads: int, **options: Any) -> None:
        super().__init__(**options)
        self.heads = heads
        self.log_variances = self.add_weight(
            shape=(heads,), initializer="zeros", name="log_variances"
        )
        self.built = True

    def call(self, features: Any) -> Any:
        """The features."""
        return features

    def get_config(self) -> dict[str, Any]:
        """What it is made from."""
        return super().get_config() | {"heads": self.heads}


# TODO(4)''',
        ),
        Edit(
            "model.py",
            "    # Full precision even",
            '    x = Uncertainty(2, dtype=keras.config.floatx(), name="uncertainty")(x)\n    # Full precision even',
        ),
        Edit(
            "steps.py",
            """    regularization = tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": tf.add_n(list(terms.values())) + regularization, **terms}
""",
            """    return {"main": _weighted(run, terms, replica), **terms}
""",
            "*",
        ),
        Edit(
            "steps.py",
            "# TODO(13)",
            '''def _weighted(run: Run, terms: dict[str, tf.Tensor], replica: Replica) -> tf.Tensor:
    """The terms divided by learned variances, whose logarithms count once in the whole batch."""
    layer = run.model.get_layer("uncertainty")
    logs = tf.unstack(tf.convert_to_tensor(layer.log_variances), len(HEADS))
    weighted = [tf.exp(-log) * terms[head] for head, log in zip(HEADS, logs, strict=True)]
    once = replica.regularization(run.model) + 0.5 * tf.add_n(logs) / replica.num_microbatches
    return tf.add_n(weighted) + tf.nn.scale_regularization_loss(once)


# TODO(13)''',
        ),
    ),
)

DIFFUSION = change_of(
    name="denoising diffusion with noise of the validation fixed",
    project="vae",
    edits=(
        predictions("    return {}"),
        function(
            "data.py",
            "create_datasets",
            '''
def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [-1, 1]; in evaluation with {"noise", "time"}.

    Evaluation uses the same noise and times in every epoch and run. In training `create_augment`
    draws new ones for each step.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    scaled = {s: 2 * images.astype("float32")[..., np.newaxis] - 1 for s, (images, _) in splits.items()}
    random = np.random.default_rng(0)

    def with_noise(images: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        noise = random.standard_normal(images.shape, "float32")
        return images, {"noise": noise, "time": np.arange(len(images), dtype="int32") * 37 % TIMES}

    evaluated = {s: with_noise(scaled[s]) for s in ("validation", "test")}
    return {"train": scaled["train"], **evaluated}
''',
        ),
        function(
            "data.py",
            "create_augment",
            '''
def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs: draws noise and times."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        images, weights = batch
        seeds = tf.random.experimental.stateless_split(seed, 2)
        noise = tf.random.stateless_normal(images.shape, seeds[0], dtype=images.dtype)
        time = tf.random.stateless_uniform((images.shape[0],), seeds[1], 0, TIMES, tf.int32)
        return images, {"noise": noise, "time": time}, weights

    return augment
''',
        ),
        Edit(
            "data.py",
            "\nArrays = ",
            "TIMES = 100  # from hardly any noise to nothing else\n\nArrays = ",
        ),
        Edit(
            "config.py",
            "    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables\n",
            "",
        ),
        Edit(
            "config.py",
            """        for name in ("l2", "shift"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be at least 0.")
""",
            """        if not self.l2 >= 0:
            raise ValueError(f"--l2 is {self.l2}; it must be at least 0.")
""",
        ),
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
        whole(
            "losses.py",
            '''
"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
from .data import TIMES

LARGEST = 5.0  # signal to noise ratio that counts in full (Hang et al., 2023)
# The part of the variance that is signal, float (TIMES,) (Nichol & Dhariwal, 2021).
SIGNAL = np.cos((np.arange(TIMES) + 1) / (TIMES + 1) * np.pi / 2) ** 2


def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: of noise and guesses (batch, h, w, 1) and times (batch,), (batch,)."""

    def squares(noise: tf.Tensor, guess: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
        """The mean squared error of each image; less where there is hardly any noise."""
        ratio = tf.constant(SIGNAL / (1 - SIGNAL), guess.dtype)
        factor = tf.gather(tf.minimum(ratio, LARGEST) / ratio, time)
        return factor * tf.reduce_mean(tf.math.squared_difference(noise, guess), axis=[1, 2, 3])

    return {"main": squares}


def diffuse(images: tf.Tensor, noise: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """Images with noise, float (batch, h, w, 1)."""
    signal = tf.gather(tf.constant(SIGNAL, images.dtype), time)[:, None, None, None]
    return tf.sqrt(signal) * images + tf.sqrt(1 - signal) * noise


def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's part of the loss, a float scalar; both float (batch,)."""
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
''',
        ),
        Edit(
            "metrics.py",
            "    return {}",
            '    return {"error_early": keras.metrics.Mean(), "error_late": keras.metrics.Mean()}',
        ),
        Edit(
            "model.py",
            '    images, *_ = first_examples(datasets["train"], 1)\n    return {"shape": images.shape[1:]}',
            '    return {"shape": first_examples(datasets["train"], 1).shape[1:]}',
        ),
        Edit(
            "model.py",
            "CODE = 8  # numbers that an image is coded by\n",
            "WAVES = 8  # that a time is described by\n",
        ),
        function(
            "model.py",
            "create_model",
            '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"noisy": float (batch, h, w, 1), "time": int32 (batch,)} -> noise float32 (batch, h, w, 1)."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    l2 = keras.regularizers.L2(task.l2)
    shape = tuple(map(int, adapted["shape"]))
    inputs = {
        "noisy": keras.Input(shape, name="noisy"),
        "time": keras.Input((), dtype="int32", name="time"),
    }
    angles = ops.cast(inputs["time"], floatx)[:, None] / TIMES * np.pi * 2.0 ** np.arange(WAVES)
    waves = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=1)  # (batch, 2 WAVES)
    time = layers.Dense(64, activation="swish")(waves)
    x = layers.Conv2D(64, 3, padding="same")(inputs["noisy"])
    for _ in range(3):
        y = layers.Activation("swish")(layers.GroupNormalization(8)(x))
        y = layers.Conv2D(64, 3, padding="same", kernel_regularizer=l2)(y)
        y = y + layers.Dense(64)(time)[:, None, None, :]
        y = layers.Activation("swish")(layers.GroupNormalization(8)(y))
        y = layers.Dropout(task.dropout)(y)
        x = x + layers.Conv2D(64, 3, padding="same", kernel_initializer="zeros")(y)
    x = layers.Activation("swish")(layers.GroupNormalization(8)(x))
    return keras.Model(inputs, layers.Conv2D(1, 3, padding="same", dtype=floatx)(x))
''',
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import TIMES\n",
        ),
        whole(
            "steps.py",
            STEPS_TOP.replace("import keras\n", "")
            + '''from .data import TIMES
from .losses import compute_loss, diffuse

# images, {"noise": as images, "time": int32 (batch,)}, weights (batch,)
Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]


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
    images, drawn, weights = batch
    noise, time = drawn["noise"], drawn["time"]
    noisy = diffuse(images, noise, time)  # (batch, h, w, 1)
    guess = run.model({"noisy": noisy, "time": time}, training=training)
    error = tf.reduce_mean(tf.math.squared_difference(noise, guess), axis=[1, 2, 3])
    early = tf.cast(time < TIMES // 2, weights.dtype)
    run.metrics["error_early"].update_state(error, early * weights)
    run.metrics["error_late"].update_state(error, (1 - early) * weights)
    per_example = run.losses["main"](noise, guess, time)  # (batch,)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
        ),
    ),
)

TASKS: tuple[Change, ...] = (
    *(MEAN_TEACHER, ARCFACE, BAGS, VICREG, BYOL, DECOUPLED, VQ, L2SP, QUANTILES, STUDENT_T, WGAN),
    *(HINGE, TIED, TWO_PASSES, DEEP, HARD_PIXELS, SURVIVAL, MONOTONE, UNCERTAINTY, DIFFUSION),
)
