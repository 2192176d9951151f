"""Faults of an examiner in tasks of owners and in tasks of its own, and its own tasks."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .tasks import PICTURES
from .unusual import change_of, fault_in

STEPS = '''"""The train, validation and test step, as one replica computes them.

A step gets the per-replica batch, updates the metrics and returns a loss for each optimizer, by the
optimizer's name ("main" if it is the only one).
"""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
IMPORTS

Batch = tuple[TYPES]


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
BODY


TRAIN_STEPS = (train_step,)  # called in this order on the same batch; a GAN has two
TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = False
'''


def steps(imports: str, types: str, body: str) -> Edit:
    """The file of the steps."""
    text = STEPS.replace("IMPORTS", imports).replace("TYPES", types)
    return Edit("steps.py", "", text.replace("BODY", body.strip("\n")))


def head(doc: str, *imports: str) -> str:
    """The first lines of a file."""
    return f'"""{doc}"""\n\nfrom __future__ import annotations\n\n' + "\n".join(imports) + "\n"


DATA_HEAD = head(
    "The examples of each split, and the augmentation of training batches.",
    "from collections.abc import Callable",
    "from pathlib import Path",
    "from typing import Any",
    "",
    "import keras",
    "import numpy as np",
    "import tensorflow as tf",
    "",
    "from .config import TaskConfig",
)
DIGITS = """
# Source: Alpaydin & Kaynak (1998), Optical Recognition of Handwritten Digits, UCI Machine Learning
# Repository, doi:10.24432/C50P49, CC BY 4.0; the 1,797 images of its test part, split once into
# train, validation and test with the same proportion of each digit.
DIGITS = Path(__file__).with_name("digits.npz")
"""
PICTURE_READER = '''

def read_image(file: Path, model: keras.Model) -> np.ndarray:
    """A picture, bright strokes on dark, as float32 (1, h, w, 1) in [0, 1] of the model's size.

    Raises:
        UsageError: the file is not a complete image.
    """
    size = model.input_shape[1:3]
    try:
        image = keras.utils.load_img(file, "grayscale", size, interpolation="bilinear")
    except OSError as error:  # its message doesn't name the file (Keras 3.15)
        raise UsageError(f"{file} is not an image, or not a whole one.") from error
    return keras.utils.img_to_array(image, dtype="float32")[np.newaxis] / 255


# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {
    ".png": read_image,
    ".jpg": read_image,
    ".jpeg": read_image,
}
'''


def predictions_of_images(columns: str) -> Edit:
    """The readers and columns of a task with images."""
    text = head(
        "What `predict` can read beside .npy and .npz files, and what it writes of each prediction.",
        "from collections.abc import Callable",
        "from pathlib import Path",
        "from typing import Any",
        "",
        "import keras",
        "import numpy as np",
        "",
        "from ..engine.errors import UsageError",
    )
    text += PICTURE_READER + "\n\n"
    text += (
        "def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:\n"
        '    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""\n'
    )
    return Edit("predictions.py", "", text + columns.strip("\n") + "\n")


def metrics(body: str, *imports: str) -> Edit:
    """The file of the metrics."""
    text = head("The metrics.", "import keras", *imports, "", "from .config import TaskConfig")
    text += (
        "\n\ndef create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:\n"
        '    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""\n'
    )
    return Edit("metrics.py", "", text + body.strip("\n") + "\n")


NO_AUGMENT = '''

def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None
'''

# -------------------------------------------------------------------------------------------------
# Detection of a rare digit: class imbalance, rare images repeated in the training data.
RARE = (
    PICTURES,
    Edit(
        "config.py",
        """    # images to classify: 8x8 digits that come with the project, or 28x28 clothes, downloaded once
    dataset: Literal["digits", "fashion_mnist"] = "digits"
""",
        "    repeats: int = 8  # how often an epoch shows each image of the rare class\n",
    ),
    Edit("config.py", "from typing import Literal\n", ""),
    Edit("config.py", '"""Image classification."""', '"""Detection of a rare digit."""'),
    Edit("config.py", 'monitor: str = "validation_accuracy"', 'monitor: str = "validation_auc"'),
    Edit(
        "config.py",
        "        if not 0 <= self.dropout < 1:",
        "        if self.repeats < 1:\n"
        '            raise ValueError(f"--repeats is {self.repeats}; it must be at least 1.")\n'
        "        if not 0 <= self.dropout < 1:",
    ),
    Edit("data.py", "from ..engine.errors import UsageError\n", ""),
    Edit(
        "data.py",
        "VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST\n",
        "RARE = 9  # the digit to be detected\n"
        "VALIDATION_IMAGES = 300  # of the 1,497 that aren't test data\n",
    ),
    Edit("data.py", "\nArrays = tuple[np.ndarray, np.ndarray]  # images and labels\n", ""),
    Edit(
        "data.py",
        "",
        '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels float32 (n, 1).

    The label is 1 for the rare digit. Its training images are repeated, since nine in ten are
    others.
    """
    images, labels = _load("train", "validation")
    order = np.random.default_rng(0).permutation(len(images))
    validation, train = np.split(order, [VALIDATION_IMAGES])
    train = _repeated(train, labels, task.repeats)
    return {
        "train": (images[train], labels[train]),
        "validation": (images[validation], labels[validation]),
        "test": _load("test"),
    }


def _repeated(rows: np.ndarray, labels: np.ndarray, repeats: int) -> np.ndarray:
    """Row numbers, those of the rare class so many times."""
    return np.repeat(rows, np.where(labels[rows, 0] == 1, repeats, 1))


def _load(*splits: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(DIGITS) as file:
        images = np.concatenate([file[f"{split}_images"] for split in splits])
        digits = np.concatenate([file[f"{split}_labels"] for split in splits])
    images = (images / 16).astype("float32")[..., np.newaxis]
    return images, (digits == RARE).astype("float32")[:, np.newaxis]
''',
        "create_datasets",
    ),
    Edit("data.py", "", "", "_load_digits"),
    Edit("data.py", "", "", "_load_fashion_mnist"),
    Edit("model.py", "\nCLASSES = 10\n", ""),
    Edit(
        "model.py",
        "logits float32 (batch, classes).",
        "a logit float32 (batch, 1), high for the rare digit.",
    ),
    Edit("model.py", "layers.Dense(CLASSES, ", "layers.Dense(1, "),
    Edit("losses.py", "SparseCategoricalCrossentropy(", "BinaryCrossentropy("),
    metrics("""
    return {
        "auc": keras.metrics.AUC(from_logits=True),
        "recall": keras.metrics.Recall(thresholds=0.5),
        "precision": keras.metrics.Precision(thresholds=0.5),
    }
"""),
    steps(
        "from .losses import compute_loss",
        "tf.Tensor, tf.Tensor, tf.Tensor",
        '''
    """The cross-entropy of each image; the metrics of its probability."""
    images, labels, weights = batch
    logits = run.model(images, training=training)  # (batch, 1)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["auc"].update_state(labels, logits, weights)
    for name in ("recall", "precision"):
        run.metrics[name].update_state(labels, tf.sigmoid(logits), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    ),
    predictions_of_images("""
    probability = 1 / (1 + np.exp(-np.asarray(outputs)[:, 0]))
    return {"is_rare": probability > 0.5, "probability": probability}
"""),
)

# -------------------------------------------------------------------------------------------------
# Image regression: where the middle of the ink is.
KEYPOINT = (
    PICTURES,
    Edit("config.py", '"""Image classification."""', '"""Regression: the place of a digit."""'),
    Edit(
        "config.py",
        """    # images to classify: 8x8 digits that come with the project, or 28x28 clothes, downloaded once
    dataset: Literal["digits", "fashion_mnist"] = "digits"
""",
        "",
    ),
    Edit("config.py", "from typing import Literal\n", ""),
    Edit("config.py", "shift: float = 0.5 ", "shift: float = 1.0 "),
    Edit(
        "config.py", 'monitor: str = "validation_accuracy"', 'monitor: str = "validation_distance"'
    ),
    Edit("config.py", "larger_is_better: bool = True", "larger_is_better: bool = False"),
    Edit(
        "data.py",
        "",
        DATA_HEAD
        + DIGITS
        + '''

def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1]; the middle (x, y) of the ink in pixels, (n, 2)."""
    with np.load(DIGITS) as file:
        splits = {s: file[f"{s}_images"] / 16 for s in ("train", "validation", "test")}
    return {
        split: (images.astype("float32")[..., np.newaxis], _middle(images).astype("float32"))
        for split, images in splits.items()
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch; shifts each image and its middle."""
    if not task.shift:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, middles, weights = batch
        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        middles -= tf.cast(shifts, middles.dtype)
        return images, middles, weights

    return augment


def _middle(images: np.ndarray) -> np.ndarray:
    """The mean place (x, y) of the ink of images (n, h, w), float (n, 2)."""
    y, x = np.indices(images.shape[1:])
    ink = images.sum(axis=(1, 2))
    return np.stack([(images * place).sum(axis=(1, 2)) / ink for place in (x, y)], axis=1)
''',
    ),
    Edit("model.py", "\nCLASSES = 10\n", ""),
    Edit(
        "model.py",
        '    return {"shape": images.shape[1:]}',
        '    _, middles = datasets["train"]\n'
        '    return {"shape": images.shape[1:], "mean": middles.mean(axis=0)}',
    ),
    Edit(
        "model.py",
        "logits float32 (batch, classes).",
        "the middle (x, y) of the ink float32 (batch, 2).",
    ),
    Edit(
        "model.py",
        """    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)""",
        """    start = keras.initializers.Constant(adapted["mean"])
    last = layers.Dense(2, bias_initializer=start, dtype=keras.config.floatx(), name="middle")
    return keras.Model(images, last(x))""",
    ),
    Edit(
        "losses.py",
        'keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")',
        'keras.losses.MeanSquaredError(reduction="none")',
    ),
    metrics('    return {"distance": keras.metrics.Mean()}  # pixels'),
    steps(
        "from .losses import compute_loss",
        "tf.Tensor, tf.Tensor, tf.Tensor",
        '''
    """The squared error; the metric is the distance in pixels."""
    images, middles, weights = batch
    found = run.model(images, training=training)  # (batch, 2)
    per_example = run.losses["main"](middles, found)  # (batch,)
    run.metrics["distance"].update_state(tf.norm(middles - found, axis=1), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    ),
    predictions_of_images("""
    return {"x": np.asarray(outputs)[:, 0], "y": np.asarray(outputs)[:, 1]}
"""),
)

# -------------------------------------------------------------------------------------------------
# Mixup (Zhang et al., 2018).
MIXUP = (
    PICTURES,
    Edit("config.py", '"""Image classification."""', '"""Image classification with mixup."""'),
    Edit(
        "config.py",
        """    # images to classify: 8x8 digits that come with the project, or 28x28 clothes, downloaded once
    dataset: Literal["digits", "fashion_mnist"] = "digits"
""",
        "",
    ),
    Edit("config.py", "from typing import Literal\n", ""),
    Edit(
        "config.py",
        "    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables\n",
        "    mixup: float = 0.4  # both parameters of the beta distribution of shares; 0 disables\n",
    ),
    Edit("config.py", '("l2", "shift")', '("l2", "mixup")'),
    Edit(
        "data.py",
        "",
        DATA_HEAD.replace("import keras\n", "")
        + DIGITS
        + '''CLASSES = 10


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1], probabilities of the classes float32 (n, CLASSES)."""
    with np.load(DIGITS) as file:
        return {
            split: (
                (file[f"{split}_images"] / 16).astype("float32")[..., np.newaxis],
                np.eye(CLASSES, dtype="float32")[file[f"{split}_labels"]],
            )
            for split in ("train", "validation", "test")
        }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch; mixes each example with another one."""
    if not task.mixup:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        seeds = tf.unstack(tf.random.split(seed, 4), 4)
        gammas = [
            tf.random.stateless_gamma((images.shape[0], 1), s, task.mixup) for s in seeds[:2]
        ]
        share = tf.cast(gammas[0] / (gammas[0] + gammas[1]), labels.dtype)  # Beta, (batch, 1)
        others = tf.random.experimental.stateless_shuffle(images, seeds[2])
        other_labels = tf.random.experimental.stateless_shuffle(labels, seeds[2])
        labels = share * labels + (1 - share) * other_labels
        share = share[..., tf.newaxis, tf.newaxis]  # (batch, 1, 1, 1)
        return share * images + (1 - share) * others, labels, weights

    return augment
''',
    ),
    Edit("model.py", "\nCLASSES = 10\n", ""),
    Edit(
        "model.py",
        "from .config import TaskConfig\n",
        "from .config import TaskConfig\nfrom .data import CLASSES\n",
    ),
    Edit("losses.py", "SparseCategoricalCrossentropy(", "CategoricalCrossentropy("),
    Edit("metrics.py", "SparseCategoricalAccuracy(", "CategoricalAccuracy("),
)

# -------------------------------------------------------------------------------------------------
# Anomaly detection with an autoencoder that is trained on normal images alone.
ANOMALY = (
    PICTURES,
    Edit(
        "config.py",
        "",
        head(
            "The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once.",
            "from dataclasses import dataclass",
        )
        + '''

@dataclass(frozen=True)
class TaskConfig:
    """Detection of anomalies."""

    anomaly: int = 0  # the digit that isn't in the training data
    code: int = 12  # numbers that an image is coded by
    learning_rate: float = 3e-3  # learning rate at the start; decays to 0 along a cosine
    monitor: str = "validation_auc"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if self.anomaly not in range(10):
            raise ValueError(f"--anomaly is {self.anomaly}; it must be a digit, 0 to 9.")
        if self.code < 1:
            raise ValueError(f"--code is {self.code}; it must be at least 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
    ),
    Edit(
        "data.py",
        "",
        DATA_HEAD.replace("import keras\n", "").replace("import tensorflow as tf\n", "")
        + DIGITS
        + '''

def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1]; whether they are anomalies, float32 (n,).

    Training images are all normal.
    """
    splits = {}
    with np.load(DIGITS) as file:
        for split in ("train", "validation", "test"):
            images = (file[f"{split}_images"] / 16).astype("float32")[..., np.newaxis]
            is_anomaly = file[f"{split}_labels"] == task.anomaly
            kept = ~is_anomaly if split == "train" else np.full(len(images), True)
            splits[split] = (images[kept], is_anomaly[kept].astype("float32"))
    return splits
'''
        + NO_AUGMENT,
    ),
    Edit(
        "model.py",
        "",
        head(
            "The model.",
            "from typing import Any",
            "",
            "import keras",
            "import numpy as np",
            "",
            "from ..engine.batches import first_examples",
            "from .config import TaskConfig",
        )
        + '''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> the same as decoded from their code, float32."""
    layers, floatx = keras.layers, keras.config.floatx()
    images = keras.Input(adapted["shape"], name="images")
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(images)
    x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.Dense(task.code, name="code")(layers.Flatten()(x))
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dense(int(np.prod(adapted["shape"])), activation="sigmoid", dtype=floatx)(x)
    return keras.Model(images, layers.Reshape(images.shape[1:], dtype=floatx)(x))
''',
    ),
    Edit(
        "losses.py",
        '    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}',
        '''
    def mean_squared_error(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:
        """Over the pixels of each image, (batch,)."""
        return tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])

    return {"main": mean_squared_error}''',
    ),
    metrics('    return {"auc": keras.metrics.AUC(num_thresholds=1000)}'),
    Edit(
        "steps.py",
        "",
        STEPS.replace("IMPORTS", "from .losses import compute_loss")
        .replace(
            "Batch = tuple[TYPES]\n",
            """Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, is_anomaly (batch,), weights (batch,)
USUAL_ERROR = 0.03  # which gets a score of a half
""",
        )
        .replace(
            "return _step(run, batch, replica, training=True)",
            """images, _, weights = batch
    per_example = run.losses["main"](images, run.model(images, training=True))  # (batch,)
    return {"main": compute_loss(per_example, weights, run.model, replica)}""",
        )
        .replace(
            "return _step(run, batch, replica, training=False)", "return _step(run, batch, replica)"
        )
        .replace(", *, training: bool)", ")")
        .replace(
            "BODY",
            '''    """The error of the images; the metric tells whether it is larger for anomalies."""
    images, is_anomaly, weights = batch
    error = run.losses["main"](images, run.model(images, training=False))  # (batch,)
    score = error / (error + USUAL_ERROR)  # in [0, 1], as the metric needs it
    run.metrics["auc"].update_state(is_anomaly, score, weights)
    return {"main": compute_loss(error, weights, run.model, replica)}''',
        ),
    ),
    predictions_of_images("""
    error = np.square(np.asarray(inputs) - np.asarray(outputs)).mean(axis=(1, 2, 3))
    return {"error": error, "decoded": np.asarray(outputs)}
"""),
)

# -------------------------------------------------------------------------------------------------
# Classification of time series with several channels.
SIGNALS = (
    PICTURES,
    Edit(
        "config.py",
        "",
        head(
            "The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once.",
            "from dataclasses import dataclass",
        )
        + '''

@dataclass(frozen=True)
class TaskConfig:
    """Classification of movements by what an accelerometer measured."""

    learning_rate: float = 3e-3  # learning rate at the start; decays to 0 along a cosine
    dropout: float = 0.2  # dropout rate before and after the hidden layer; 0 disables
    gain: float = 0.2  # largest random change of a training signal's amplitude; 0 disables
    monitor: str = "validation_accuracy"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("dropout", "gain"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be in [0, 1).")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
    ),
    Edit(
        "data.py",
        "",
        DATA_HEAD.replace("import keras\n", "").replace("from pathlib import Path\n", "")
        + '''
CHANNELS, LENGTH = 3, 64  # directions; samples of each
# Of each class: periods in a signal, and by how much of one the channels follow each other.
MOVEMENTS = ((3, 0.0), (3, 0.25), (5, 0.0), (5, 0.25), (5, -0.25))
CLASSES = len(MOVEMENTS)
NOISE = 1.2
SIZES = {"train": 1200, "validation": 300, "test": 300}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Signals float32 (n, LENGTH, CHANNELS), labels int64 (n,)."""
    splits = {}
    for seed, (split, size) in enumerate(SIZES.items()):
        signals, labels = _record(np.random.default_rng(seed), size)
        signals = np.moveaxis(signals, 1, 2)  # time before channels, as Conv1D takes them
        splits[split] = (signals.astype("float32"), labels)
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch; changes the amplitude of each signal."""
    if not task.gain:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        signals, labels, weights = batch
        shape = (signals.shape[0], 1, 1)
        gain = tf.random.stateless_uniform(shape, seed, 1 - task.gain, 1 + task.gain)
        return signals * tf.cast(gain, signals.dtype), labels, weights

    return augment


def _record(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Signals (size, CHANNELS, LENGTH), as the recorder writes them, and labels (size,)."""
    labels = random.integers(CLASSES, size=size)
    periods, lag = np.array(MOVEMENTS)[labels].T[..., np.newaxis, np.newaxis]  # each (size, 1, 1)
    start = random.uniform(size=(size, 1, 1))
    periods = periods + random.normal(0, 0.2, (size, 1, 1))
    channel, time = np.arange(CHANNELS)[:, np.newaxis], np.arange(LENGTH) / LENGTH
    signals = np.sin(2 * np.pi * (periods * time + start + lag * channel))
    return signals + random.normal(0, NOISE, signals.shape), labels
''',
    ),
    Edit(
        "model.py",
        "",
        head(
            "The model.",
            "from typing import Any",
            "",
            "import keras",
            "import numpy as np",
            "",
            "from .config import TaskConfig",
            "from .data import CHANNELS, CLASSES, LENGTH",
        )
        + '''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The mean and standard deviation of each channel in the training data."""
    signals, _ = datasets["train"]
    return {"mean": signals.mean(axis=(0, 1)), "variance": signals.var(axis=(0, 1))}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Signals float (batch, LENGTH, CHANNELS) -> logits float32 (batch, CLASSES)."""
    layers, floatx = keras.layers, keras.config.floatx()
    signals = keras.Input((LENGTH, CHANNELS), name="signals")
    mean, variance = adapted["mean"], adapted["variance"]
    x = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(signals)
    for filters in (24, 48):
        x = layers.Conv1D(filters, 7, padding="same", activation="relu")(x)
        x = layers.MaxPooling1D(2)(x)
    x = layers.Dropout(task.dropout)(layers.GlobalAveragePooling1D()(x))
    return keras.Model(signals, layers.Dense(CLASSES, dtype=floatx, name="logits")(x))
''',
    ),
    Edit(
        "predictions.py",
        "",
        head(
            "What `predict` can read beside .npy and .npz files, and what it writes of each prediction.",
            "from collections.abc import Callable",
            "from pathlib import Path",
            "from typing import Any",
            "",
            "import keras",
            "import numpy as np",
            "import tensorflow as tf",
        )
        + '''
# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    probabilities = np.asarray(tf.nn.softmax(outputs))  # (n, classes)
    return {"class": probabilities.argmax(axis=1), "probability": probabilities}
''',
    ),
)

# -------------------------------------------------------------------------------------------------
# Quantile regression on a table.
QUANTILES = (
    PICTURES,
    Edit("config.py", '"""Regression on a table."""', '"""Quantile regression on a table."""'),
    Edit(
        "model.py",
        "from .config import TaskConfig\n",
        "from .config import TaskConfig\nfrom .losses import QUANTILES\n",
    ),
    Edit("model.py", "-> float32 (batch, 1).", "-> quantiles (batch, 3)."),
    Edit(
        "model.py",
        """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))""",
        """    x = layers.Dense(len(QUANTILES), dtype=floatx)(layers.Concatenate()([x, hidden]))
    scale, offset = float(adapted["label_variance"][0] ** 0.5), float(adapted["label_mean"][0])
    return keras.Model(inputs, layers.Rescaling(scale, offset, dtype=floatx, name="quantiles")(x))""",
    ),
    Edit(
        "losses.py",
        "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n",
        "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n"
        "QUANTILES = (0.1, 0.5, 0.9)  # what the model predicts\n",
    ),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels float (batch, 1), predictions float (batch, quantiles) -> float (batch,)."""
        quantiles = tf.constant(QUANTILES, predictions.dtype)
        error = (labels - predictions) / LABEL_DEVIATION  # (batch, quantiles)
        return tf.reduce_mean(tf.maximum(quantiles * error, (quantiles - 1) * error), axis=1)

    return {"main": pinball}
''',
        "create_losses",
    ),
    Edit(
        "losses.py",
        "the squared error of standardized labels.",
        "the pinball loss of standardized labels.",
    ),
    metrics("""
    return {"mae": keras.metrics.MeanAbsoluteError(), "coverage": keras.metrics.Mean()}
"""),
    steps(
        "from .losses import compute_loss",
        "dict[str, tf.Tensor], tf.Tensor, tf.Tensor",
        '''
    """The pinball loss; the error of the median, and how many labels are in the interval."""
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, quantiles)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    low, median, high = tf.split(predictions, 3, axis=1)  # each (batch, 1)
    run.metrics["mae"].update_state(labels, median, weights)
    inside = (low <= labels) & (labels <= high)  # (batch, 1): of 80% of all
    run.metrics["coverage"].update_state(inside[:, 0], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    ),
    Edit(
        "predictions.py",
        '    return {"progression": np.asarray(outputs)[:, 0]}',
        '    return dict(zip(("low", "median", "high"), np.asarray(outputs).T, strict=True))',
    ),
)

# -------------------------------------------------------------------------------------------------
# Ordinal regression: the stage of the disease.
ORDINAL = (
    PICTURES,
    Edit("config.py", '"""Regression on a table."""', '"""Ordinal regression on a table."""'),
    Edit("config.py", 'monitor: str = "validation_loss"', 'monitor: str = "validation_stages_off"'),
    Edit(
        "data.py",
        "VALIDATION = 8  # every eighth row that isn't test data\n",
        "VALIDATION = 8  # every eighth row that isn't test data\n"
        "STAGES = 4  # of the disease, from the slowest progression to the fastest\n",
    ),
    Edit(
        "data.py",
        "float32 (n, 1), weights float32 (n,) with a mean of 1.",
        "int64 (n,) from 0 to STAGES - 1, weights float32 (n,) with a mean of 1. As many training\n"
        "    examples are in each stage.",
    ),
    Edit(
        "data.py",
        """    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
""",
        """    shares = np.arange(1, STAGES) / STAGES
    edges = np.quantile(target[rest[~is_validation]], shares)

    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
""",
    ),
    Edit(
        "data.py",
        'return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]',
        'return {"numeric": numeric, "sex": sex}, np.digitize(target[rows], edges)',
    ),
    Edit("model.py", "inputs, labels, _ = datasets", "inputs, *_ = datasets"),
    Edit(
        "model.py",
        """        "label_mean": labels.mean(axis=0),
        "label_variance": labels.var(axis=0),
""",
        "",
    ),
    Edit(
        "model.py",
        "from .config import TaskConfig\n",
        "from .config import TaskConfig\nfrom .data import STAGES\n",
    ),
    Edit("model.py", "-> float32 (batch, 1).", "-> (batch, STAGES - 1)."),
    Edit(
        "model.py",
        """    Numeric inputs may be NaN. Inputs and predictions are in units of the data, so the exported
    model needs no scaling around it.
""",
        """    Logit k is high if the stage is above k. Numeric inputs may be NaN, and are in units of the
    data, so the exported model needs no scaling around it.
""",
    ),
    Edit(
        "model.py",
        """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))""",
        """    logits = layers.Dense(STAGES - 1, dtype=floatx, name="logits")
    return keras.Model(inputs, logits(layers.Concatenate()([x, hidden])))""",
    ),
    Edit("losses.py", "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n", ""),
    Edit(
        "losses.py",
        "from .config import TaskConfig\n\n\n",
        "from .config import TaskConfig\nfrom .data import STAGES\n\n",
    ),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")

    def cumulative(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels int (batch,), logits float (batch, STAGES - 1) -> float (batch,)."""
        is_above = labels[:, tf.newaxis] > tf.range(STAGES - 1, dtype=labels.dtype)
        return cross_entropy(tf.cast(is_above, logits.dtype), logits)

    return {"main": cumulative}
''',
        "create_losses",
    ),
    Edit(
        "losses.py",
        "the squared error of standardized labels.",
        "the cross-entropy of being above each stage.",
    ),
    metrics("""
    return {"stages_off": keras.metrics.Mean(), "accuracy": keras.metrics.Mean()}
"""),
    steps(
        "from .losses import compute_loss",
        "dict[str, tf.Tensor], tf.Tensor, tf.Tensor",
        '''
    """The cross-entropy of being above each stage; by how many stages a prediction is off."""
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)  # (batch, STAGES - 1)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    stage = tf.math.count_nonzero(logits > 0, axis=1, dtype=labels.dtype)  # (batch,)
    run.metrics["stages_off"].update_state(tf.abs(stage - labels), weights)
    run.metrics["accuracy"].update_state(stage == labels, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    ),
    Edit(
        "predictions.py",
        '    return {"progression": np.asarray(outputs)[:, 0]}',
        """    logits = np.asarray(outputs)  # (n, STAGES - 1)
    return {"stage": (logits > 0).sum(axis=1), "probability_above": 1 / (1 + np.exp(-logits))}""",
    ),
)

# -------------------------------------------------------------------------------------------------
# Heteroscedastic regression on a table, with early stopping.
HETEROSCEDASTIC = (
    PICTURES,
    Edit(
        "config.py",
        '"""Regression on a table."""',
        '"""Regression with a variance for each example."""',
    ),
    Edit(
        "config.py",
        '    monitor: str = "validation_loss"',
        "    patience: int = 10  # validations without a better loss until the run ends\n"
        '    monitor: str = "validation_loss"',
    ),
    Edit("model.py", "-> float32 (batch, 1).", "-> float32 (batch, 2)."),
    Edit(
        "model.py",
        """    Numeric inputs may be NaN. Inputs and predictions are in units of the data, so the exported
    model needs no scaling around it.
""",
        """    Numeric inputs may be NaN. Outputs are the mean, in units of the data, and the logarithm of the
    variance of standardized labels.
""",
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
    scale, offset = float(adapted["label_variance"][0] ** 0.5), float(adapted["label_mean"][0])
    mean = layers.Rescaling(scale, offset, dtype=floatx)(layers.Dense(1, dtype=floatx)(x))
    log_variance = layers.Dense(1, kernel_initializer="zeros", dtype=floatx)(x)
    return keras.Model(inputs, layers.Concatenate(dtype=floatx)([mean, log_variance]))""",
    ),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def negative_log_likelihood(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """Labels float (batch, 1), outputs float (batch, 2) -> float (batch,)."""
        mean, log_variance = tf.split(outputs, 2, axis=1)  # each (batch, 1)
        square = tf.square((labels - mean) / LABEL_DEVIATION)
        return 0.5 * tf.squeeze(log_variance + square * tf.exp(-log_variance), axis=1)

    return {"main": negative_log_likelihood}
''',
        "create_losses",
    ),
    Edit(
        "losses.py",
        "the squared error of standardized labels.",
        "the likelihood of a normal distribution.",
    ),
    metrics("""
    return {"mae": keras.metrics.MeanAbsoluteError(), "coverage": keras.metrics.Mean()}
"""),
    steps(
        "from .losses import LABEL_DEVIATION, compute_loss",
        "dict[str, tf.Tensor], tf.Tensor, tf.Tensor",
        '''
    """The negative log-likelihood; how many labels are within a standard deviation."""
    inputs, labels, weights = batch
    outputs = run.model(inputs, training=training)  # (batch, 2)
    per_example = run.losses["main"](labels, outputs)  # (batch,)
    mean, log_variance = tf.split(outputs, 2, axis=1)  # each (batch, 1)
    run.metrics["mae"].update_state(labels, mean, weights)
    inside = tf.abs(labels - mean) < LABEL_DEVIATION * tf.exp(0.5 * log_variance)  # 68% of all
    run.metrics["coverage"].update_state(inside[:, 0], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    ),
    Edit(
        "callbacks.py",
        "",
        head(
            "Functions that are called during training.",
            "import keras",
            "",
            "from ..engine.callbacks import Callback",
            "from ..engine.keras_callbacks import keras_callback",
            "from .config import TaskConfig",
        )
        + '''

def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Ends the run when the validation loss is no longer getting better."""
    stopping = keras.callbacks.EarlyStopping(
        monitor="val_loss", patience=task.patience, mode="min"
    )
    return [keras_callback(stopping)]
''',
    ),
    Edit(
        "predictions.py",
        "from .data import CATEGORY\n",
        "from .data import CATEGORY\nfrom .losses import LABEL_DEVIATION\n",
    ),
    Edit(
        "predictions.py",
        '    return {"progression": np.asarray(outputs)[:, 0]}',
        """    mean, log_variance = np.asarray(outputs).T
    return {"progression": mean, "deviation": LABEL_DEVIATION * np.exp(0.5 * log_variance)}""",
    ),
)

# -------------------------------------------------------------------------------------------------
# A masked language model.
MASKED = (
    PICTURES,
    Edit("config.py", '"""Language model."""', '"""Masked language model."""'),
    Edit(
        "config.py",
        "    layers: int = 2  # layers of the transformer\n",
        "    masked: float = 0.2  # fraction of characters that are masked\n"
        "    layers: int = 2  # layers of the transformer\n",
    ),
    Edit(
        "config.py",
        "        if self.heads < 1 ",
        "        if not 0 < self.masked < 1:\n"
        '            raise ValueError(f"--masked is {self.masked}; it must be in (0, 1).")\n'
        "        if self.heads < 1 ",
    ),
    Edit("config.py", '"validation_exact_match"', '"validation_token_accuracy"'),
    Edit(
        "data.py",
        """A token is the ASCII code of a character. The prompt ends with ">" and the answer with a line feed;
zeros pad each line to the length of the longest.
""",
        """A token is the ASCII code of a character, or MASK; zeros pad each line to the longest.
""",
    ),
    Edit(
        "data.py",
        """PROMPT_END, LINE_END = ord(">"), ord("\\n")
ANSWER_LENGTH = len("1979-05-03\\n")
""",
        """MASK = 1  # in place of the characters to be predicted
""",
    ),
    Edit(
        "data.py",
        "",
        '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Training lines int32 (n, forms, T); in evaluation (tokens, targets, weights), each (n, T).

    A training date comes in every form, others in one. Evaluation masks the same characters in
    every epoch and run; in training `create_augment` masks others in each step.
    """
    source = random.Random(SEED)
    # Held-out dates first, so that they don't depend on --dates.
    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
    held_out = VALIDATION_LINES + TEST_LINES
    text = [_line(date, source.choice(FORMS), source) for date in dates[:held_out]]
    text += [_line(date, form, source) for date in dates[held_out:] for form in FORMS]
    lines = np.array(text, "S").view("uint8").reshape(len(text), -1).astype("int32")  # (n, T)
    chances = np.random.default_rng(SEED).random(lines[:held_out].shape, "float32")
    masked = tuple(part.numpy() for part in _mask(lines[:held_out], chances, task.masked))
    return {
        "train": lines[held_out:].reshape(task.dates, len(FORMS), -1),
        "validation": tuple(part[:VALIDATION_LINES] for part in masked),
        "test": tuple(part[VALIDATION_LINES:] for part in masked),
    }
''',
        "create_datasets",
    ),
    Edit(
        "data.py",
        "",
        '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (batch, seed) -> batch that tf.data runs on each global batch, or None.

    The result has the elements that a train step gets, weights last. Draw random numbers only with
    tf.random.stateless_* and the seed, int64 (2,), which differs in each step: then the result is
    the same on any number of replicas, and after a resume.
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        lines, present = batch
        rows, forms, length = lines.shape
        seeds = tf.unstack(tf.random.split(seed, 2), 2)
        form = tf.random.stateless_uniform((rows,), seeds[0], 0, forms, tf.int32)
        lines = tf.gather(lines, form, axis=1, batch_dims=1)  # (batch, T)
        chances = tf.random.stateless_uniform((rows, length), seeds[1])
        tokens, targets, weights = _mask(lines, chances, task.masked)
        return tokens, targets, tf.cast(weights, present.dtype) * present[:, tf.newaxis]

    return augment


def _mask(lines: Any, chances: Any, share: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Lines int32 (n, T), chances float (n, T) in [0, 1) -> tokens, targets, weights (n, T).

    The weight is 1 for characters to be predicted, else 0.
    """
    is_text = tf.not_equal(lines, 0)
    selected = is_text & (chances < share)
    tokens = tf.where(selected, MASK, lines)
    weights = tf.cast(selected, tf.float32)
    return tokens, tf.convert_to_tensor(lines), weights
''',
        "create_augment",
    ),
    Edit("data.py", "picks one form for each date.", "masks characters."),
    Edit(
        "model.py",
        '"""The model, how it completes a prompt, and what it attends to."""',
        '"""The model."""',
    ),
    Edit("model.py", "import tensorflow as tf\n", ""),
    Edit("model.py", "from .data import ANSWER_LENGTH, TOKENS\n", "from .data import TOKENS\n"),
    Edit(
        "model.py",
        'tokens, *_ = first_examples(datasets["train"], 1)',
        'tokens = first_examples(datasets["train"], 1)',
    ),
    Edit("model.py", "a small causal transformer.", "a small transformer."),
    Edit("model.py", "(batch, T, TOKENS) of the next token.", "(batch, T, TOKENS) of each token."),
    Edit(
        "model.py",
        "    for _ in range(task.layers):\n        # Padding needs no mask: it comes last, and no token attends to a later one.\n",
        "    is_text = keras.ops.not_equal(tokens, 0)[:, None, :]  # no token attends to padding\n"
        "    for _ in range(task.layers):\n",
    ),
    Edit(
        "model.py",
        "attention(y, y, use_causal_mask=True))\n        y =",
        "attention(y, y, attention_mask=is_text))\n        y =",
    ),
    Edit("model.py", "", "", "complete"),
    Edit("model.py", "", "", "attention"),
    Edit(
        "losses.py", "that belong to answers, an int32 scalar.", "that are masked, an int32 scalar."
    ),
    Edit(
        "losses.py",
        "(batch, T), 0 for prompts and padding\n",
        "(batch, T), 0 for all but masked ones\n",
    ),
    Edit(
        "losses.py",
        "weights: float (batch, T), 0 for prompts and padding.",
        "weights: float (batch, T), 0 for all but masked ones.",
    ),
    Edit(
        "losses.py",
        "    # Divided by tokens, not lines: a token weighs the same in short answers as in long ones.\n",
        "",
    ),
    metrics('    return {"token_accuracy": keras.metrics.SparseCategoricalAccuracy()}'),
    steps(
        "from .losses import compute_loss",
        "tf.Tensor, tf.Tensor, tf.Tensor",
        '''
    """The cross-entropy of the masked characters."""
    tokens, targets, weights = batch
    logits = run.model(tokens, training=training)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}
''',
    ),
    Edit(
        "predictions.py",
        "",
        head(
            "What `predict` can read beside .npy and .npz files, and what it writes of each prediction.",
            "from collections.abc import Callable",
            "from pathlib import Path",
            "from typing import Any",
            "",
            "import keras",
            "import numpy as np",
            "",
            "from .data import MASK",
        )
        + '''
# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    tokens = np.asarray(inputs)
    filled = np.where(tokens == MASK, np.asarray(outputs).argmax(axis=-1), tokens)
    rows = filled.astype("uint8")
    return {"text": [bytes(row[row != 0]).decode("latin-1").strip() for row in rows]}
''',
    ),
)

# -------------------------------------------------------------------------------------------------
# Segmentation of ink and background by the Dice loss (Milletari et al., 2016).
DICE = (
    PICTURES,
    Edit(
        "config.py",
        '"""Semantic segmentation."""',
        '"""Segmentation into digits and background."""',
    ),
    Edit(
        "config.py",
        "    foreground_weight: float = 2.0  # weight of a digit's pixel in the loss; the background's is 1\n",
        "",
    ),
    Edit(
        "config.py", '("learning_rate", "width", "foreground_weight")', '("learning_rate", "width")'
    ),
    Edit(
        "data.py",
        "CLASSES = 11  # 0 is the background, 1 to 10 are the digits 0 to 9\n",
        "CLASSES = 2  # 0 is the background, 1 are digits\n",
    ),
    Edit(
        "data.py",
        '_compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)',
        '_compose(file[f"{split}_images"], canvases, seed)',
    ),
    Edit(
        "data.py",
        "    digits: np.ndarray, classes: np.ndarray, canvases: int, seed: int\n",
        "    digits: np.ndarray, canvases: int, seed: int\n",
    ),
    Edit("data.py", "        classes: uint8 (n,).\n", ""),
    Edit(
        "data.py", "label[place][ink >= DARK] = classes[index] + 1", "label[place][ink >= DARK] = 1"
    ),
    Edit("model.py", "from .data import CLASSES\n", ""),
    Edit(
        "model.py",
        "logits float32 (batch, h, w, classes).",
        "logits float32 (batch, h, w, 1), high for digits.",
    ),
    Edit("model.py", "layers.Conv2D(CLASSES, 1,", "layers.Conv2D(1, 1,"),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; labels and logits give one number per example."""

    def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Labels int (batch, h, w), logits float (batch, h, w, 1) -> float (batch,) in [0, 1].

        Ignored pixels don't count.
        """
        counted = tf.cast(labels != IGNORED, logits.dtype)  # (batch, h, w)
        is_digit = counted * tf.cast(labels > 0, logits.dtype)
        predicted = counted * tf.sigmoid(logits[..., 0])
        overlap = tf.reduce_sum(predicted * is_digit, axis=[1, 2])  # (batch,)
        total = tf.reduce_sum(predicted + is_digit, axis=[1, 2])  # (batch,)
        return 1 - (2 * overlap + SMOOTH) / (total + SMOOTH)

    return {"main": dice}
''',
        "create_losses",
    ),
    Edit("losses.py", "cross-entropy of logits, 0 for ignored pixels.", "the Dice loss."),
    Edit(
        "losses.py",
        "from typing import Any\n",
        "from collections.abc import Callable\nfrom typing import Any\n",
    ),
    Edit(
        "losses.py",
        "from .data import IGNORED\n",
        "from .data import IGNORED\n\nSMOOTH = 1.0  # pixels, so that an empty canvas has a loss too\n",
    ),
    Edit("losses.py", "", "", "average_over_pixels"),
    Edit("metrics.py", "        sparse_y_pred=False,\n", ""),
    steps(
        "from .losses import compute_loss\nfrom .metrics import pixel_weights",
        "tf.Tensor, tf.Tensor, tf.Tensor",
        '''
    """The Dice loss of each canvas."""
    images, labels, weights = batch
    logits = run.model(images, training=training)  # (batch, h, w, 1)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    predicted = tf.cast(logits[..., 0] > 0, labels.dtype)  # (batch, h, w)
    run.metrics["mean_iou"].update_state(labels, predicted, pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    ),
    Edit("predictions.py", "from .data import CLASSES\n", ""),
    Edit(
        "predictions.py",
        """    labels = np.argmax(outputs, axis=-1)  # (n, h, w)
    return {
        "pixels": np.stack([(labels == c).sum(axis=(1, 2)) for c in range(CLASSES)], axis=1),
        "labels": labels[..., np.newaxis] / (CLASSES - 1),
    }""",
        """    is_digit = np.asarray(outputs) > 0  # (n, h, w, 1)
    return {"pixels": is_digit.sum(axis=(1, 2, 3)), "labels": is_digit.astype(np.float32)}""",
    ),
)

# -------------------------------------------------------------------------------------------------
# Denoising of canvases with a U-Net.
DENOISING = (
    PICTURES,
    Edit("config.py", '"""Semantic segmentation."""', '"""Denoising."""'),
    Edit(
        "config.py",
        "learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine",
        "learning_rate: float = 5e-3  # learning rate at the start; decays to 0",
    ),
    Edit(
        "config.py",
        """    foreground_weight: float = 2.0  # weight of a digit's pixel in the loss; the background's is 1
    warp: float = 0.15  # largest random rotation, shear and scaling in training; 0 disables
""",
        "    noise: float = 0.3  # standard deviation of the noise of a pixel\n",
    ),
    Edit(
        "config.py",
        '("learning_rate", "width", "foreground_weight")',
        '("learning_rate", "width", "noise")',
    ),
    Edit(
        "config.py",
        """        if not 0 <= self.warp < 0.5:
            raise ValueError(f"--warp is {self.warp}; it must be at least 0 and less than 0.5.")
""",
        "",
    ),
    Edit("config.py", '"validation_mean_iou"', '"validation_psnr"'),
    Edit(
        "data.py",
        "",
        DATA_HEAD.replace("import keras\n", "")
        + DIGITS
        + '''CANVASES = {"train": 768, "validation": 192, "test": 288}  # each from digits of its own split
CANVAS, DIGIT = 32, 16  # pixels along a side; the 8x8 digits are scaled up
TRIES = 6  # digits that are tried on each canvas


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Clean images float32 (n, h, w, 1) in [0, 1]; in evaluation noisy images before them.

    Evaluation has the same noise in every epoch and run; in training `create_augment` draws new
    noise for each step.
    """
    splits: dict[str, Any] = {}
    with np.load(DIGITS) as file:
        for seed, (split, canvases) in enumerate(CANVASES.items()):
            random = np.random.default_rng(seed)
            clean = _compose(file[f"{split}_images"], canvases, random)
            noise = task.noise * random.standard_normal(clean.shape, "float32")
            splits[split] = clean if split == "train" else (clean + noise, clean)
    return splits


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch: (noisy, clean, weights)."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        clean, weights = batch
        noise = tf.random.stateless_normal(clean.shape, seed, stddev=task.noise, dtype=clean.dtype)
        return clean + noise, clean, weights

    return augment


def _compose(digits: np.ndarray, canvases: int, random: np.random.Generator) -> np.ndarray:
    """Canvases of digits at random places; a digit whose ink would meet other ink is left out."""
    inks = tf.image.resize(digits[..., np.newaxis] / 16, (DIGIT, DIGIT)).numpy()[..., 0]
    images = np.zeros((canvases, CANVAS, CANVAS), np.float32)
    for image in images:
        for index in random.integers(len(inks), size=TRIES):
            top, left = random.integers(CANVAS - DIGIT + 1, size=2)
            place = np.s_[top : top + DIGIT, left : left + DIGIT]
            if not np.any((inks[index] > 0) & (image[place] > 0)):
                image[place] += inks[index]
    return images[..., np.newaxis]
''',
    ),
    Edit("model.py", "from .data import CLASSES\n", ""),
    Edit(
        "model.py",
        'images, *_ = first_examples(datasets["train"], 1)',
        'images = first_examples(datasets["train"], 1)',
    ),
    Edit("model.py", "logits float32 (batch, h, w, classes).", "the same without noise, float32."),
    Edit(
        "model.py",
        """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)""",
        """    return keras.Model(images, layers.Conv2D(1, 1, dtype=keras.config.floatx(), name="clean")(x))""",
    ),
    Edit("losses.py", "from .data import IGNORED\n", ""),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; clean images and denoised ones give one number per image."""

    def mean_squared_error(clean: tf.Tensor, denoised: tf.Tensor) -> tf.Tensor:
        """Over the pixels of each image, (batch,)."""
        return tf.reduce_mean(tf.square(clean - denoised), axis=[1, 2, 3])

    return {"main": mean_squared_error}
''',
        "create_losses",
    ),
    Edit("losses.py", "cross-entropy of logits, 0 for ignored pixels.", "the squared error."),
    Edit(
        "losses.py",
        "from typing import Any\n",
        "from collections.abc import Callable\nfrom typing import Any\n",
    ),
    Edit("losses.py", "", "", "average_over_pixels"),
    metrics('    return {"psnr": keras.metrics.Mean()}  # peak signal-to-noise ratio, dB'),
    steps(
        "from .losses import compute_loss",
        "tf.Tensor, tf.Tensor, tf.Tensor",
        '''
    """The squared error of each image."""
    noisy, clean, weights = batch
    denoised = run.model(noisy, training=training)  # (batch, h, w, 1)
    per_example = run.losses["main"](clean, denoised)  # (batch,)
    psnr = tf.image.psnr(clean, tf.clip_by_value(denoised, 0.0, 1.0), max_val=1.0)  # (batch,)
    run.metrics["psnr"].update_state(psnr, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
    ),
    Edit(
        "optimizer.py",
        "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
        "    schedule = keras.optimizers.schedules.PolynomialDecay(\n"
        "        task.learning_rate, decay_steps=steps, end_learning_rate=0.0, power=0.9\n"
        "    )\n",
    ),
    Edit("optimizer.py", "Adam with a cosine schedule.", "Adam with a polynomial schedule."),
    predictions_of_images("""
    return {"denoised": np.clip(np.asarray(outputs), 0, 1)}
"""),
)

# -------------------------------------------------------------------------------------------------
# A Wasserstein GAN with a gradient penalty (Gulrajani et al., 2017).
WGAN = (
    Edit("config.py", "dropout: float = 0.3 ", "dropout: float = 0.0 "),
    Edit("config.py", "learning_rate: float = 1e-3 ", "learning_rate: float = 5e-4 "),
    Edit(
        "config.py",
        '"""Generative adversarial network."""',
        '"""Wasserstein GAN with a gradient penalty."""',
    ),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; the critic's outputs (batch, 1) give one number per example."""

    def discriminator_loss(
        on_real: tf.Tensor, on_generated: tf.Tensor, penalty: tf.Tensor
    ) -> tf.Tensor:
        """Low if outputs are high on real images and low on generated ones; penalty: (batch,)."""
        return (on_generated - on_real)[:, 0] + PENALTY * penalty

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if outputs are high on generated images."""
        return -on_generated[:, 0]

    return {"discriminator": discriminator_loss, "generator": generator_loss}


def gradient_penalty(
    critic: keras.Model, real: tf.Tensor, generated: tf.Tensor, seed: tf.Tensor, training: bool
) -> tf.Tensor:
    """How far the norm of the critic's gradient is from 1, between real and generated images.

    Images are float (batch, h, w, channels); float (batch,).
    """
    share = tf.random.stateless_uniform((real.shape[0], 1, 1, 1), seed, dtype=real.dtype)
    between = share * real + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        outputs = critic(between, training=training)  # (batch, 1)
    gradients = tape.gradient(outputs, between)  # (batch, h, w, channels)
    norm = tf.sqrt(tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3]) + 1e-12)
    return tf.square(norm - 1)
''',
        "create_losses",
    ),
    Edit(
        "losses.py", "cross-entropy of the discriminator's logits.", "those of a Wasserstein GAN."
    ),
    Edit(
        "losses.py",
        "from .config import TaskConfig\n",
        "from .config import TaskConfig\n\nPENALTY = 10.0  # factor of the gradient penalty\n",
    ),
    Edit(
        "model.py",
        "discriminator maps images to logits float32 (batch, 1), high for real images.",
        "discriminator, a critic, maps images to float32 (batch, 1), high for real images.",
    ),
    Edit(
        "steps.py",
        "from .losses import compute_loss\n",
        "from .losses import compute_loss, gradient_penalty\n",
    ),
    Edit(
        "steps.py",
        '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
        "    penalty = gradient_penalty(discriminator, images, generated, replica.seed, True)\n"
        '    per_example = run.losses["discriminator"](on_real, on_generated, penalty)  # (batch,)\n',
    ),
    Edit(
        "steps.py",
        '    discriminator_losses = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
        "    penalty = gradient_penalty(discriminator, images, generated, replica.seed, False)\n"
        '    discriminator_losses = run.losses["discriminator"](on_real, on_generated, penalty)\n',
    ),
    Edit("optimizer.py", "beta_1=0.5", "beta_1=0.0, beta_2=0.9", "*"),
)

TASKS: tuple[Change, ...] = (
    change_of(
        name="rare digit with repeated training images", project="image_classification", edits=RARE
    ),
    change_of(
        name="regression of the middle of the ink", project="image_classification", edits=KEYPOINT
    ),
    change_of(name="mixup of images and labels", project="image_classification", edits=MIXUP),
    change_of(
        name="anomaly detection by an autoencoder", project="image_classification", edits=ANOMALY
    ),
    change_of(
        name="classification of three channel signals",
        project="image_classification",
        edits=SIGNALS,
    ),
    change_of(
        name="quantile regression by the pinball loss",
        project="tabular_regression",
        edits=QUANTILES,
    ),
    change_of(name="ordinal regression of stages", project="tabular_regression", edits=ORDINAL),
    change_of(
        name="regression with a variance and early stopping",
        project="tabular_regression",
        edits=HETEROSCEDASTIC,
    ),
    change_of(name="masked language model of dates", project="language_model", edits=MASKED),
    change_of(name="binary segmentation by the dice loss", project="segmentation", edits=DICE),
    change_of(name="denoising with a polynomial schedule", project="segmentation", edits=DENOISING),
    change_of(name="wasserstein gan with gradient penalty", project="gan", edits=WGAN),
)

FAULTS: tuple[Fault, ...] = (
    # ---- contrastive
    fault_in(
        name="similarities times the temperature",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "transpose_b=True) / TEMPERATURE",
                "transpose_b=True) * TEMPERATURE",
                "*",
            ),
        ),
        kind="loss",
        cause="The cosine similarities are multiplied by the temperature 0.1 instead of divided by it: "
        "logits lie within 0.1 of 0, the softmax stays nearly uniform and the loss near ln(96).",
        file="steps.py",
        named=r"temperature|divid|multipl|scale|logits.*(small|narrow|range|close|flat|same|equal)"
        r"|uniform|softmax|similarit|ln\(|log\(",
    ),
    fault_in(
        name="padded candidates get the logit zero",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "logits = tf.where(there, similarity, -1e9)",
                "logits = similarity * tf.cast(there, similarity.dtype)",
                "*",
            ),
        ),
        kind="mask",
        cause="Padding is masked by multiplying its logits by 0 rather than setting them to minus "
        "infinity: exp(0) = 1, so each padded row is still a negative in the denominator of the softmax "
        "of short batches.",
        file="steps.py",
        named=r"pad|mask|weight(s)? (of )?(0|zero)|zero weight|negative|-1e9|infinit|short batch"
        r"|last batch|candidate",
    ),
    # ---- vae
    fault_in(
        name="variance in place of the standard deviation",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "tf.exp(0.5 * log_variance) * noise",
                "tf.exp(log_variance) * noise",
                "train_step",
            ),
        ),
        kind="model",
        cause="The code is sampled with exp(log_variance), the variance, where the standard deviation "
        "exp(log_variance / 2) belongs: the noise isn't that of the distribution whose KL divergence "
        "is minimized.",
        file="steps.py",
        named=r"standard deviation|\bstd\b|deviation|variance|0\.5|half|reparam|sampl|noise|spread|log_var",
    ),
    fault_in(
        name="one noise for the whole batch",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "tf.random.stateless_normal(mean.shape, replica.seed",
                "tf.random.stateless_normal(mean.shape[1:], replica.seed",
            ),
        ),
        kind="randomness",
        cause="The noise has the shape of one code and is broadcast: all examples of a batch get the "
        "same noise in a step, so that codes aren't sampled independently.",
        file="steps.py",
        named=r"same noise|noise|random|broadcast|independen|shared|each example|every example|same number",
    ),
    # ---- forecasting
    fault_in(
        name="gaps become zeros",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "    ends = [int(0.7",
                "    rows = np.nan_to_num(rows)  # some hours are missing\n    ends = [int(0.7",
            ),
        ),
        kind="data",
        cause="Missing values become 0 when the file is read, so the mask of missing values finds none: "
        "the model is trained and judged on labels of 0 degrees that were never measured.",
        file="data.py",
        named=r"nan|missing|gap|fill|imput|(labels?|values?|targets?|column|inputs?).*\b(0|zeros?)\b"
        r"|\b(0|zeros?)\b.*(labels?|values?|targets?|column|inputs?)|outlier",
    ),
    fault_in(
        name="inputs smoothed by a centered mean",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                "PAST, FUTURE = 24, 6  # hours\nSMOOTHING = 5  # hours over which inputs are averaged\n",
            ),
            Edit(
                "data.py",
                """    windows = np.lib.stride_tricks.sliding_window_view(rows, PAST + FUTURE, axis=0)
    return windows[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]
""",
                '''    windows = np.lib.stride_tricks.sliding_window_view(rows, PAST + FUTURE, axis=0)
    smooth = np.lib.stride_tricks.sliding_window_view(_smooth(rows), PAST + FUTURE, axis=0)
    return smooth[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]


def _smooth(rows: np.ndarray) -> np.ndarray:
    """The mean over SMOOTHING hours of what is there, against the noise of the sensors."""
    side = SMOOTHING // 2
    padded = np.pad(rows, [(side, side), (0, 0)], constant_values=np.nan)
    return np.nanmean(np.lib.stride_tricks.sliding_window_view(padded, SMOOTHING, axis=0), axis=-1)
''',
            ),
        ),
        kind="leak",
        cause="The moving average is centered: the last two input hours are means that include the "
        "first two hours to be forecast, which aren't known yet when a forecast is made.",
        file="data.py",
        named=r"leak|future|look.?ahead|target|label|center|smooth|rolling|moving|average|not known|unknown"
        r"|contain|after the",
    ),
    # ---- finetuning
    fault_in(
        name="pictures are read as 0 to 255",
        project="finetuning",
        edits=(Edit("predictions.py", "[np.newaxis] / 255\n", "[np.newaxis]\n"),),
        kind="predictions",
        cause="predict reads pictures with values from 0 to 255, and the model was trained on 0 to 1: "
        "predictions for pictures are wrong.",
        file="predictions.py",
        named=r"255|scale|range|\[0, 1\]|0 to 1|divid|read_image|READERS|picture|larger than",
    ),
    fault_in(
        name="the clone of the backbone has random weights",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                "    backbone = load_in_precision(BACKBONE)\n",
                "    # A copy of its own, whose name can be changed.\n"
                "    backbone = keras.models.clone_model(load_in_precision(BACKBONE))\n",
            ),
        ),
        kind="model",
        cause="keras.models.clone_model copies the architecture and not the weights: the backbone starts "
        "from random weights, and nothing of the pretrained ones is used.",
        file="model.py",
        named=r"clone|pre-?train|random(ly)? (init|weight)|initial|weights.*(file|lost|loaded|copied|backbone\.keras)"
        r"|backbone\.keras|not those of",
    ),
    # ---- two_heads
    fault_in(
        name="both heads divided by all examples",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many examples count for each head, int32 scalars."""
    number = tf.math.count_nonzero(batch[-1], dtype=tf.int32)
    return dict.fromkeys(HEADS, number)
''',
                "count",
            ),
        ),
        kind="denominator",
        cause="Each head's loss is divided by the number of all examples, not of those with a label for "
        "it: the loss of a head with labels for a fifth is a fifth of its mean.",
        file="losses.py",
        named=r"count|denominator|divid|number of (labels|examples)|mean|average|missing label|weights",
    ),
    fault_in(
        name="labels of class zero are left out as missing",
        project="two_heads",
        edits=(Edit("losses.py", "labels[head] >= 0", "labels[head] > 0"),),
        kind="mask",
        cause="-1 is the missing label, and the mask leaves out 0 too: zeros and odd digits are never "
        "trained nor judged, so a head that always says even has an accuracy of 1.",
        file="losses.py",
        named=r"class(es)? 0|label(s)?( of)? 0|\b0\b|zero|odd|missing|mask|left out|never (count|train|weigh)"
        r"|one class|single class|only class|>= ?0|ignor",
    ),
    # ---- distillation
    fault_in(
        name="the accuracy is the teacher's",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "update_state(labels, logits, weights)",
                "update_state(labels, taught, weights)",
                "*",
            ),
        ),
        kind="metrics",
        cause="The metric gets the teacher's logits: the accuracy reported, which also selects the best "
        "weights, isn't the student's and never changes.",
        file="steps.py",
        named=r"teacher|taught|accuracy|metric|constant|never changes|doesn't (change|depend)",
    ),
    fault_in(
        name="only the teacher is softened",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "(tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)",
                "(tf.nn.softmax(taught / TEMPERATURE), logits)",
                "*",
            ),
        ),
        kind="loss",
        cause="The temperature divides the teacher's logits and not the student's: the student learns "
        "the softened probabilities themselves, so it never matches the teacher's, and the factor of "
        "the squared temperature is wrong.",
        file="steps.py",
        named=r"temperature|soften|softer|student'?s? logits|both|teacher.*student|student.*teacher|not (its|the) minimum",
    ),
    # ---- tasks of their own
    fault_in(
        name="rare images repeated before the split",
        project="image_classification",
        edits=(
            *RARE,
            Edit(
                "data.py",
                """    order = np.random.default_rng(0).permutation(len(images))
    validation, train = np.split(order, [VALIDATION_IMAGES])
    train = _repeated(train, labels, task.repeats)
""",
                """    rows = _repeated(np.arange(len(images)), labels, task.repeats)
    order = np.random.default_rng(0).permutation(rows)
    validation, train = np.split(order, [VALIDATION_IMAGES])
""",
            ),
        ),
        kind="leak",
        cause="The images of the rare class are repeated before the rows are split: copies of the same "
        "image are in the training and in the validation data.",
        file="data.py",
        named=r"leak|both|duplicat|cop(y|ies)|same (example|image|row|input)|repeat|overlap|also in|shared"
        r"|in the training data|split|more than once|twice",
    ),
    fault_in(
        name="the augmentation leaves the middle where it was",
        project="image_classification",
        edits=(
            *KEYPOINT,
            Edit("data.py", "        middles -= tf.cast(shifts, middles.dtype)\n", ""),
            Edit("data.py", "shifts each image and its middle.", "shifts each image."),
        ),
        kind="augmentation",
        cause="The augmentation moves the image and not the label, which is a place in it: training "
        "labels are wrong by the random shift.",
        file="data.py",
        named=r"augment|shift|label.*(mov|chang|same|stay|place|fit|belong)|coordinate|middle|geometr",
    ),
    fault_in(
        name="labels are mixed with those of other images",
        project="image_classification",
        edits=(
            *MIXUP,
            Edit(
                "data.py",
                "stateless_shuffle(labels, seeds[2])",
                "stateless_shuffle(labels, seeds[3])",
            ),
        ),
        kind="augmentation",
        cause="Images and labels are shuffled with different seeds, so the label that is mixed in isn't "
        "that of the image that is mixed in.",
        file="data.py",
        named=r"shuffl|seed|mix|partner|label|pair|augment|order|permut",
    ),
    fault_in(
        name="anomaly scores scaled within each batch",
        project="image_classification",
        edits=(
            *ANOMALY,
            Edit(
                "steps.py",
                "    score = error / (error + USUAL_ERROR)  # in [0, 1], as the metric needs it\n",
                "    low, high = tf.reduce_min(error), tf.reduce_max(error)\n"
                "    score = (error - low) / (high - low)  # in [0, 1], as the metric needs it\n",
            ),
            Edit("steps.py", "USUAL_ERROR = 0.03  # which gets a score of a half\n", ""),
        ),
        kind="metrics",
        cause="Scores are scaled by the smallest and largest error of each batch on each replica (padding "
        "included): those of two batches can't be compared, and the AUC depends on how the examples are "
        "divided into batches and replicas.",
        file="steps.py",
        named=r"batch|replica|min(imum)?\b|max(imum)?\b|scal|normaliz|other(s| examples)|pad|depend|divid",
    ),
    fault_in(
        name="channels and time mixed by a reshape",
        project="image_classification",
        edits=(
            *SIGNALS,
            Edit(
                "data.py",
                "signals = np.moveaxis(signals, 1, 2)  # time before channels, as Conv1D takes them",
                "signals = signals.reshape(-1, LENGTH, CHANNELS)  # as Conv1D takes them",
            ),
        ),
        kind="data",
        cause="The axes are swapped by a reshape where a transpose is needed: a row holds three "
        "successive samples of one channel instead of one sample of three channels.",
        file="data.py",
        named=r"reshape|transpos|moveaxis|swap|axis|axes|scrambl|mix|layout|channel|order|interleav",
    ),
    fault_in(
        name="pinball loss of the error with the other sign",
        project="tabular_regression",
        edits=(
            *QUANTILES,
            Edit(
                "losses.py",
                "error = (labels - predictions) / LABEL_DEVIATION",
                "error = (predictions - labels) / LABEL_DEVIATION",
            ),
        ),
        kind="loss",
        cause="The error in the pinball loss is prediction minus label: the output for the quantile 0.1 "
        "learns the quantile 0.9 and the other way round, so the interval is upside down and covers "
        "nothing.",
        file="losses.py",
        named=r"sign|pinball|quantile|revers|swap|order|cross|coverage|labels - predictions|above|below|over"
        r"|asymm|direction|upside",
    ),
    fault_in(
        name="stages cut at the quantiles of each split",
        project="tabular_regression",
        edits=(
            *ORDINAL,
            Edit(
                "data.py",
                """    edges = np.quantile(target[rest[~is_validation]], shares)

    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
""",
                """
    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        edges = np.quantile(target[rows], shares)
""",
            ),
        ),
        kind="labels",
        cause="The edges of the stages are computed for each split from its own labels: the same "
        "progression is another stage in validation and test than in training.",
        file="data.py",
        named=r"split|edge|quantile|bin|own (labels|data|quantile)|threshold|different(ly)? (label|stage|in)"
        r"|same (target|label|value)|each of|digiti|discreti",
    ),
    fault_in(
        name="early stopping waits for a larger loss",
        project="tabular_regression",
        edits=(*HETEROSCEDASTIC, Edit("callbacks.py", 'mode="min"', 'mode="max"')),
        kind="callbacks",
        cause="EarlyStopping looks for a larger validation loss, so while the loss falls it sees no "
        "improvement, and ends the run after the first `patience` validations.",
        file="callbacks.py",
        named=r"early.?stop|mode|max|monitor|direction|larger|smaller|patience|stops|ends the run",
    ),
    fault_in(
        name="characters that can be read count too",
        project="language_model",
        edits=(
            *MASKED,
            Edit(
                "data.py",
                "weights = tf.cast(selected, tf.float32)",
                "weights = tf.cast(is_text, tf.float32)",
            ),
        ),
        kind="mask",
        cause="All characters have weight 1, not only the masked ones: four fifths of loss and accuracy "
        "come from characters that the model only has to copy from its input.",
        file="data.py",
        named=r"mask|weight|cop(y|ied|ies)|identi|visible|given|in the input|its input|same as the input"
        r"|trivial|leak|equal|unmasked|selected",
    ),
    fault_in(
        name="ignored pixels count as ink in the dice loss",
        project="segmentation",
        edits=(
            *DICE,
            Edit(
                "losses.py",
                """        counted = tf.cast(labels != IGNORED, logits.dtype)  # (batch, h, w)
        is_digit = counted * tf.cast(labels > 0, logits.dtype)
        predicted = counted * tf.sigmoid(logits[..., 0])
""",
                """        is_digit = tf.cast(labels > 0, logits.dtype)  # (batch, h, w)
        predicted = tf.sigmoid(logits[..., 0])
""",
            ),
            Edit("losses.py", '\n\n        Ignored pixels don\'t count.\n        """', '"""'),
            Edit("losses.py", "from .data import IGNORED\n", ""),
        ),
        kind="mask",
        cause="Pixels labeled 255, to be ignored, are larger than 0 and so count as digit in the loss: "
        "the model learns digits that are too thick, and the metric leaves these pixels out.",
        file="losses.py",
        named=r"ignor|255|void|border|mask|don't count|left out|leave[sn]? out|label(s)? (of|that)",
    ),
    fault_in(
        name="the learning rate decays over as many steps as epochs",
        project="segmentation",
        edits=(
            *DENOISING,
            Edit("optimizer.py", "decay_steps=steps,", "decay_steps=EPOCHS,"),
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nEPOCHS = 40  # over which the learning rate decays\n",
            ),
        ),
        kind="schedule",
        cause="decay_steps is a number of epochs, and the schedule counts steps: the learning rate is 0 "
        "after 40 of 320 steps, and most of the run trains nothing.",
        file="optimizer.py",
        named=r"learning.?rate|schedule|decay|epochs?\b.*steps|steps.*epochs?\b|weights (stop|don't|no longer)",
    ),
    fault_in(
        name="the penalty takes the norm of the whole batch",
        project="gan",
        edits=(
            *WGAN,
            Edit(
                "losses.py",
                "norm = tf.sqrt(tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3]) + 1e-12)",
                "norm = tf.sqrt(tf.reduce_sum(tf.square(gradients)) + 1e-12)",
            ),
        ),
        kind="distribution",
        cause="The gradient penalty takes one norm of the gradients of all images of a replica's batch "
        "instead of one for each image: each image's gradient is pushed to about 1 / sqrt(batch), and "
        "the loss depends on the batch size and the number of replicas.",
        file="losses.py",
        named=r"norm|penalty|axis|per.?example|each (example|image)|batch|replica|interact|other examples"
        r"|depend|reduce_sum|gradient",
    ),
)
