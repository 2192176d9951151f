"""Correct tasks that a reader of `check` expected it to accuse."""

from __future__ import annotations

from .edits import Edit, Fault
from .unusual import change_of

_NO_CALLBACKS = '''    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
'''
_ONLY_CALLBACK = "from ..engine.callbacks import Callback\n"
_COSINE = """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
"""

_WARM_SIMILARITIES = change_of(
    name="temperature of the pairs that cools down",
    project="contrastive",
    edits=(
        Edit(
            "steps.py",
            "TEMPERATURE = 0.1\n",
            """TEMPERATURE = 0.1
WARMEST, COOLING = 2.0, 250  # the temperature of the first step, and steps until the last one
""",
        ),
        Edit(
            "steps.py",
            "similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE",
            "similarity = tf.matmul(left, candidates, transpose_b=True)",
            "train_step",
        ),
        Edit(
            "steps.py",
            "    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)\n",
            """    left_over = tf.maximum(1.0 - tf.cast(replica.step, similarity.dtype) / COOLING, 0.0)
    similarity /= TEMPERATURE + (WARMEST - TEMPERATURE) * left_over
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
""",
            "train_step",
        ),
    ),
)

_DIRECTIONS = change_of(
    name="a student that takes over the direction of the logits",
    project="distillation",
    edits=(
        Edit(
            "steps.py",
            "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
            """TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels
SOFT = 20.0  # factor of the other part, whose gradients are small: all shares are near 1 / classes
""",
        ),
        Edit(
            "steps.py",
            'run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)',
            'run.losses["soft"](tf.nn.softmax(direction(taught)), direction(logits))  # (batch,)',
            "*",
        ),
        Edit("steps.py", "(1 - HARD) * TEMPERATURE**2 * soft", "(1 - HARD) * SOFT * soft", "*"),
        Edit(
            "steps.py",
            "# TODO(11): one train step",
            '''def direction(logits: tf.Tensor) -> tf.Tensor:
    """Logits (batch, classes) without their mean, of length 1, over the temperature."""
    centered = logits - tf.reduce_mean(logits, axis=1, keepdims=True)
    return tf.math.l2_normalize(centered, axis=1) / TEMPERATURE


# TODO(11): one train step''',
        ),
    ),
)

_ROOT_MSE = change_of(
    name="root_mse beside the mean absolute error",
    project="tabular_regression",
    edits=(
        Edit(
            "metrics.py",
            'return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}',
            """return {
        "mae": keras.metrics.MeanAbsoluteError(),
        "root_mse": keras.metrics.RootMeanSquaredError(),
        "r2": r2,
    }""",
        ),
        Edit(
            "steps.py",
            '    run.metrics["mae"].update_state(labels, predictions, weights)\n',
            """    run.metrics["mae"].update_state(labels, predictions, weights)
    run.metrics["root_mse"].update_state(labels, predictions, weights)
""",
            "*",
        ),
    ),
)


_SNAPSHOTS = change_of(
    name="snapshots at the ends of cycles of three epochs",
    project="image_classification",
    edits=(
        Edit(
            "optimizer.py",
            _COSINE,
            """    schedule = keras.optimizers.schedules.CosineDecayRestarts(
        task.learning_rate, first_decay_steps=CYCLE, t_mul=1.0, m_mul=1.0
    )
    return keras.optimizers.Adam(schedule)
""",
        ),
        Edit(
            "optimizer.py",
            "# TODO(7)",
            """CYCLE = 36  # steps from one snapshot to the next: three epochs


# TODO(7)""",
        ),
        Edit(
            "callbacks.py",
            _ONLY_CALLBACK,
            """import numpy as np

from ..engine.callbacks import Callback, Event, every_steps
""",
        ),
        Edit(
            "callbacks.py",
            "from .config import TaskConfig\n",
            '''from .config import TaskConfig
from .optimizer import CYCLE


def save_snapshot(event: Event) -> None:
    """Write the weights at the end of a cycle."""
    if event.is_chief:
        np.savez(event.directory / f"snapshot-{event.step}.npz", *event.run.model.get_weights())
''',
        ),
        Edit(
            "callbacks.py",
            _NO_CALLBACKS,
            '''    """One that writes a snapshot behind each cycle."""
    return [every_steps(CYCLE, save_snapshot)]
''',
        ),
    ),
)

_TWO_PHASES = change_of(
    name="the head to its end, then everything at constant rates",
    project="finetuning",
    edits=(
        Edit("config.py", "frozen_steps: int = 7 ", "frozen_steps: int = 120 "),
        Edit(
            "optimizer.py",
            "# TODO(7)",
            '''class HeadThenAll(keras.optimizers.schedules.LearningRateSchedule):
    """Half a cosine down to 0 while the last layer trains alone, then a constant."""

    def __init__(self, rate: float, head_steps: int) -> None:
        super().__init__()
        self.rate, self.head_steps = rate, head_steps

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """The learning rate of a step, counted from 0."""
        ops = keras.ops
        share = ops.minimum(ops.cast(step, "float32") / self.head_steps, 1.0)
        of_head = 0.5 * self.rate * (1.0 + ops.cos(math.pi * share))
        return ops.where(share < 1.0, of_head, self.rate)

    def get_config(self) -> dict[str, float]:
        """What it is made of."""
        return {"rate": self.rate, "head_steps": self.head_steps}


# TODO(7)''',
        ),
        Edit(
            "optimizer.py",
            "import keras\nimport tensorflow as tf\n",
            "import math\n\nimport keras\nimport tensorflow as tf\n",
        ),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
            "    schedule = HeadThenAll(task.learning_rate, max(1, task.frozen_steps))\n",
        ),
    ),
)

_TWO_POINTS = change_of(
    name="weights averaged with those of ten epochs before, which the chief has written",
    project="image_classification",
    edits=(
        Edit(
            "callbacks.py",
            _ONLY_CALLBACK,
            """import numpy as np

from ..engine.callbacks import Callback, Event, every_epochs
""",
        ),
        Edit(
            "callbacks.py",
            "from .config import TaskConfig\n",
            '''from .config import TaskConfig

FIRST, SECOND = 20, 30  # epochs behind which weights are written, and averaged with these


def average_two_points(event: Event) -> None:
    """Write the weights of one epoch; behind a later one go on from the mean of both."""
    file = event.directory / f"weights-{FIRST}.npz"
    if event.epoch == FIRST and event.is_chief:
        np.savez(file, *event.run.model.get_weights())
    if event.epoch == SECOND:
        now = event.run.model.get_weights()
        with np.load(file) as then:
            event.run.model.set_weights([(w + then[f"arr_{i}"]) / 2 for i, w in enumerate(now)])
''',
        ),
        Edit(
            "callbacks.py",
            _NO_CALLBACKS,
            '''    """One that averages the weights with earlier ones, once."""
    return [every_epochs(10, average_two_points)]
''',
        ),
    ),
)

_DOUBT = change_of(
    name="a learning rate that follows the doubt that the chief sees",
    project="image_classification",
    edits=(
        Edit(
            "optimizer.py",
            _COSINE,
            "    return keras.optimizers.Adam(task.learning_rate)  # a callback lowers it\n",
        ),
        Edit(
            "callbacks.py",
            _ONLY_CALLBACK,
            """import numpy as np
import tensorflow as tf

from ..engine.callbacks import Callback, Event, every_epochs
""",
        ),
        Edit(
            "callbacks.py",
            "from .config import TaskConfig\n",
            '''from .config import TaskConfig


def doubt(event: Event) -> float:
    """The entropy of the model's shares for the chief's latest batch, 1 where all are alike."""
    seen = 0.0
    if event.is_chief:
        logits = event.outputs  # (rows, classes)
        each = tf.reduce_sum(tf.nn.softmax(logits) * tf.nn.log_softmax(logits), axis=1)
        seen = -float(tf.reduce_mean(each)) / float(np.log(logits.shape[1]))
    return float(event.run.workers.sum(np.array([seen]))[0])  # the others add 0
''',
        ),
        Edit(
            "callbacks.py",
            _NO_CALLBACKS,
            '''    """One that sets the learning rate behind each epoch."""

    def follow_doubt(event: Event) -> None:
        rate = task.learning_rate * (0.1 + 0.9 * doubt(event))
        event.run.optimizers["main"].learning_rate = rate

    return [every_epochs(1, follow_doubt)]
''',
        ),
    ),
)


_CONTRASTS = change_of(
    name="contrasts of a table whose last row is the images as they are",
    project="image_classification",
    edits=(
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels\n",
            """Arrays = tuple[np.ndarray, np.ndarray]  # images and labels
CONTRASTS = (0.6, 0.8, 1.25, 1.6, 1.0)  # to draw from, and last that of images that stay
""",
        ),
        Edit(
            "data.py",
            "        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)\n",
            """        rows, (of_shift, of_kind, of_rest) = images.shape[0], tf.unstack(tf.random.split(seed, 3))
        kind = tf.random.stateless_uniform((rows,), of_kind, 0, len(CONTRASTS) - 1, tf.int32)
        stays = tf.random.stateless_uniform((rows,), of_rest) < 0.5
        contrast = tf.where(stays, CONTRASTS[-1], tf.gather(tf.constant(CONTRASTS), kind))
        images = tf.minimum(images * contrast[:, tf.newaxis, tf.newaxis, tf.newaxis], 1.0)
        shifts = tf.random.stateless_uniform((rows, 2), of_shift, -task.shift, task.shift)
""",
        ),
    ),
)

_GAINS = change_of(
    name="sensors whose gain isn't known, and a reference station",
    project="forecasting",
    edits=(
        Edit("data.py", "import numpy as np\n", "import numpy as np\nimport tensorflow as tf\n"),
        Edit(
            "data.py",
            "PAST, FUTURE = 24, 6  # hours\n",
            """PAST, FUTURE = 24, 6  # hours
GAIN = 0.2  # how far the sensors of stations in use are off; labels are those of the reference
""",
        ),
        Edit(
            "data.py",
            '''    """None for no augmentation."""
    return None
''',
            '''    """Other gains of the sensors for each example; the reference, which is forecast, has none."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        past, future, weights = batch
        shape = (past.shape[0], 1, past.shape[2])
        gains = tf.random.stateless_uniform(shape, seed, 1 - GAIN, 1 + GAIN, past.dtype)
        return past * gains, future, weights

    return augment
''',
        ),
    ),
)

_DEEP_PICTURES = change_of(
    name="counts of a camera of twelve bits, in pictures of sixteen",
    project="image_classification",
    edits=(
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels\n",
            """MOST_COUNTS = 4095  # of a pixel of a camera with 12 bits
Arrays = tuple[np.ndarray, np.ndarray]  # images and labels
""",
        ),
        Edit(
            "data.py",
            'split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))',
            'split: ((MOST_COUNTS * images).astype("float32")[..., np.newaxis], labels.astype("int64"))',
        ),
        Edit(
            "data.py",
            "images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).",
            "counts float32 (n, h, w, 1), labels int64 (n,).",
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import MOST_COUNTS\n",
        ),
        Edit(
            "model.py",
            "    x = images\n",
            "    x = layers.Rescaling(1 / MOST_COUNTS, dtype=keras.config.floatx())(images)\n",
        ),
        Edit(
            "pictures.py",
            'INK: dict[str, Any] = {"cmap": "gray_r", "vmin": 0, "vmax": 1}',
            'INK: dict[str, Any] = {"cmap": "gray_r", "vmin": 0, "vmax": 4095}',
        ),
        Edit(
            "predictions.py",
            "",
            '''def read_image(file: Path, model: keras.Model) -> np.ndarray:
    """A gray picture as the camera writes it, 12 bits in 16, as counts float32 (1, h, w, 1).

    Raises:
        UsageError: it is no picture, or has colors.
    """
    try:
        with Image.open(file) as image:
            counts = np.asarray(image).astype("float32")
    except OSError as error:
        raise UsageError(f"{file} is not an image, or not a whole one.") from error
    if counts.ndim != 2:
        raise UsageError(f"{file} has colors.")
    size = model.input_shape[1:3]
    return tf.image.resize(counts[np.newaxis, :, :, np.newaxis], size).numpy()
''',
            "read_image",
        ),
        Edit(
            "predictions.py",
            "import tensorflow as tf\n",
            "import tensorflow as tf\nfrom PIL import Image\n",
        ),
        Edit(
            "predictions.py",
            """    ".png": read_image,
    ".jpg": read_image,
    ".jpeg": read_image,
""",
            """    ".png": read_image,
""",
        ),
    ),
)

TASKS = (
    _WARM_SIMILARITIES,
    _DIRECTIONS,
    _ROOT_MSE,
    _SNAPSHOTS,
    _TWO_PHASES,
    _TWO_POINTS,
    _DOUBT,
    _CONTRASTS,
    _GAINS,
    _DEEP_PICTURES,
)

FAULTS: tuple[Fault, ...] = ()
