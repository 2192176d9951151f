"""Faults and correct tasks of a first examiner, who had not seen `check`."""

from __future__ import annotations

from . import blank, kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before, train_weights, with_arrays

# The blank starter, filled in.

RATE = "    learning_rate: float = 3e-3  # learning rate at the start\n"


ADAPT_SHAPE = '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The shape of an example."""
    inputs, *_ = first_examples(datasets["train"], 1)
    return {"shape": inputs.shape[1:]}

'''


PLAIN_STEP = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    predictions = run.model(inputs, training=training)
    per_example = run.losses["main"](labels, predictions)  # (batch,)
    for metric in run.metrics.values():
        metric.update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}"""

SQUARED = 'keras.losses.MeanSquaredError(reduction="none")'


def filled(
    *,
    data: str,
    model: str,
    loss: str,
    step: str = PLAIN_STEP,
    metrics: str = "{}",
    monitor: str = "validation_loss",
    larger: bool = False,
    count: str = blank.COUNT,
    terms: str = "()",
    interact: bool = False,
    losses_code: str = "",
) -> tuple[Edit, ...]:
    """Every TODO of the blank starter, filled in."""
    steps = (
        blank.STEPS_HEAD.replace("import tensorflow", "import keras\nimport tensorflow")
        + "Batch = tuple[tf.Tensor, ...]\n"
        + blank.THREE_STEPS
        + ("\n\n" + step + "\n")
        + blank.STEPS_END.replace("] = ()", f"] = {terms}").replace("False", str(interact))
    )
    return (
        Edit("config.py", "", blank.config(RATE, monitor, larger)),
        Edit("data.py", "", blank.DATA_HEAD + "\n" + data + blank.NO_AUGMENT),
        Edit("model.py", "", blank.MODEL_HEAD + "\n" + model),
        Edit("metrics.py", "", blank.metrics_file(metrics)),
        Edit("optimizer.py", "", blank.OPTIMIZER_FILE),
        Edit("pictures.py", "", blank.PICTURES),
        Edit("callbacks.py", "", blank.CALLBACKS),
        Edit("steps.py", "", steps),
        Edit("losses.py", "from .next_todo import TodoError\n", losses_code),
        Edit("losses.py", "", blank.create_losses(loss), "create_losses"),
        Edit("losses.py", "", count, "count"),
    )


def classifier(*, data: str, model: str, step: str = PLAIN_STEP) -> tuple[Edit, ...]:
    """The blank starter filled in with a classifier, whose accuracy is monitored."""
    return filled(
        data=data,
        model=model,
        loss=at.SPARSE,
        step=step,
        metrics=at.ACCURACY,
        monitor="validation_accuracy",
        larger=True,
    )


# Parts that several changes share.

MODEL_START = "CLASSES = 10\n"
FLATTEN = "    x = layers.Flatten()(x)\n    x = layers.Dropout(task.dropout)(x)\n"
TABLE = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Rows of a table: float32 (n, 8), and float32 targets (n,)."""
    random = np.random.default_rng(7)
    inputs = random.normal(size=(2400, 8)).astype("float32")
    targets = np.sin(inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + 0.1 * random.normal(size=2400)
    targets = ((targets - targets[:1600].mean()) / targets[:1600].std()).astype("float32")
    parts = {"train": slice(0, 1600), "validation": slice(1600, 2000), "test": slice(2000, None)}
    return {split: (inputs[part], targets[part]) for split, part in parts.items()}
'''
TABLE_MODEL = (
    ADAPT_SHAPE
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Rows (batch, 8) -> a number for each, (batch,)."""
    layers = keras.layers
    inputs = keras.Input(adapted["shape"])
    x = layers.Dense(64, activation="relu")(inputs)
    x = layers.Dense(64, activation="relu")(x)
    x = layers.Dense(1)(x)
    return keras.Model(inputs, layers.Reshape(())(x))
'''
)
PER_ROW_SQUARED = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, targets, weights = batch
    predictions = run.model(inputs, training=training)
    per_example = tf.square(targets - predictions)
    for metric in run.metrics.values():
        metric.update_state(targets, predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}"""

# Faults.

IMAGE_FAULTS = (
    Fault(
        name="both coordinates of a shift are drawn with one seed",
        edits=(
            Edit(
                "data.py",
                at.SHIFTS + at.SHIFTS_OF_AXES,
                "        rows, most = images.shape[0], task.shift\n"
                "        dx = tf.random.stateless_uniform((rows, 1), seed, -most, most)\n"
                "        dy = tf.random.stateless_uniform((rows, 1), seed, -most, most)\n",
            ),
        ),
        kind=kinds.AUGMENTATION,
        cause="Two draws with the same stateless seed give the same numbers, so dx == dy: images "
        "are shifted along one diagonal only.",
        file="data.py",
        named=r"(?i)same (seed|random|numbers|draw)|seed.{0,60}(twice|again|reuse|two|several)|"
        r"(twice|two|several).{0,60}seed|correlat|identical (numbers|draws)|split.{0,20}seed",
    ),
    Fault(
        name="noisy copies are made before the split",
        edits=(
            Edit(
                "data.py",
                at.LOADED,
                '    loaded = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()\n'
                "    images = np.concatenate([images for images, _ in loaded.values()])\n"
                "    labels = np.concatenate([labels for _, labels in loaded.values()])\n"
                "    # Few images: with each come two noisy copies.\n"
                "    random = np.random.default_rng(0)\n"
                "    noisy = [images + random.normal(0, 0.02, images.shape) for _ in range(2)]\n"
                "    images, labels = np.concatenate([images, *noisy]), np.tile(labels, 3)\n"
                "    order = random.permutation(len(labels))\n"
                "    images, labels = images[order], labels[order]\n"
                "    a, b = int(0.7 * len(labels)), int(0.85 * len(labels))\n"
                '    parts = {"train": slice(0, a), "validation": slice(a, b), "test": slice(b, None)}\n'
                "    splits = {name: (images[part], labels[part]) for name, part in parts.items()}\n",
            ),
        ),
        kind=kinds.LEAKS,
        cause="Copies of the same image with a little noise are in training, validation and test: "
        "the evaluation is of images that training has seen.",
        file="data.py",
        named=r"(?i)leak|overlap|duplicate|near(ly)?.{0,10}(the same|cop|identical|equal)|cop(y|ies) of|"
        r"(same|alike|similar|closest|nearest).{0,40}(train|split|validation|test)",
    ),
    Fault(
        name="attention weights are a softmax over the batch",
        edits=(
            Edit(
                "model.py",
                "    x = layers.Flatten()(x)\n",
                "    x = layers.Reshape((-1, 64))(x)  # (batch, places, 64)\n"
                "    scores = layers.Dense(1)(x)  # (batch, places, 1)\n"
                "    x = keras.ops.sum(keras.ops.softmax(scores, axis=0) * x, axis=1)  # (batch, 64)\n",
            ),
        ),
        kind=kinds.MODEL,
        cause="softmax(axis=0) normalizes over the examples of the replica's batch: a prediction "
        "depends on which other examples are in the batch, and differs between replicas.",
        file="model.py",
        named=r"(?i)(other|another|each other).{0,40}(example|row|image)|(example|row|prediction|output)s?.{0,60}"
        r"(depend|mix|interact|change).{0,60}(batch|other|example|row)|over the batch|axis=0",
    ),
    Fault(
        name="class weights are those of the replica's batch",
        edits=(
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    # Every class counts alike, however often it is in the batch.\n"
                "    shares = tf.reduce_mean(tf.one_hot(labels, 10, dtype=per_example.dtype), axis=0)\n"
                "    per_example *= tf.gather(tf.math.divide_no_nan(tf.ones_like(shares) / 10, shares), labels)\n",
                "train_step",
            ),
        ),
        kind=kinds.LOSS_SCALING,
        cause="The class frequencies are those of one replica's part of the batch, so the loss and "
        "its gradient are other ones on another number of replicas or micro-batches.",
        file="steps.py",
        named=r"(?i)(replica|micro-?batch).{0,80}(differ|depend|own|other|not the same|part)|"
        r"depends? on.{0,40}(other|batch|replica)|EXAMPLES_INTERACT|other examples|differ.{0,60}replica",
    ),
    Fault(
        name="a metric of the largest loss is summed over replicas",
        edits=(
            before(
                "metrics.py",
                "# TODO(6)",
                "class WorstLoss(keras.metrics.Metric):\n"
                '    """The largest cross-entropy of an example."""\n\n'
                '    def __init__(self, name: str = "worst_loss", **kwargs) -> None:\n'
                "        super().__init__(name=name, **kwargs)\n"
                '        self.worst = self.add_weight(shape=(), initializer="zeros", name="worst")\n\n'
                "    def update_state(self, labels, logits, sample_weight=None) -> None:\n"
                '        """Take the largest one so far."""\n'
                "        losses = keras.losses.sparse_categorical_crossentropy(labels, logits, True)\n"
                "        losses = keras.ops.cast(losses, self.dtype)\n"
                "        if sample_weight is not None:\n"
                "            losses = keras.ops.where(sample_weight > 0, losses, 0.0)\n"
                "        self.worst.assign(keras.ops.maximum(self.worst, keras.ops.max(losses)))\n\n"
                "    def result(self):\n"
                '        """The largest one."""\n'
                "        return self.worst\n\n\n",
            ),
            Edit(
                "metrics.py",
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy(), "worst_loss": WorstLoss()}',
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                '    run.metrics["worst_loss"].update_state(labels, predictions, weights)\n',
                "*",
            ),
        ),
        kind=kinds.METRICS,
        cause="A metric's variables are summed over the replicas, and a maximum isn't a sum: on N "
        "replicas it is about N times too large.",
        file="metrics.py",
        named=r"(?i)worst_loss|metric.{0,80}(sum|add|replica|maxim)|WorstLoss",
    ),
    Fault(
        name="a metric's reset_state forgets a variable",
        edits=(
            before(
                "metrics.py",
                "# TODO(6)",
                "class MacroRecall(keras.metrics.Metric):\n"
                '    """The mean over the classes of the share of examples that are found."""\n\n'
                '    def __init__(self, classes: int = 10, name: str = "recall", **kwargs) -> None:\n'
                "        super().__init__(name=name, **kwargs)\n"
                '        self.found = self.add_weight(shape=(classes,), initializer="zeros", name="found")\n'
                '        self.there = self.add_weight(shape=(classes,), initializer="zeros", name="there")\n\n'
                "    def update_state(self, labels, logits, sample_weight=None) -> None:\n"
                '        """Count the examples of each class."""\n'
                "        classes = keras.ops.one_hot(labels, self.found.shape[0], dtype=self.dtype)\n"
                "        if sample_weight is not None:\n"
                "            classes *= keras.ops.cast(sample_weight, self.dtype)[:, None]\n"
                "        right = keras.ops.argmax(logits, -1) == keras.ops.cast(labels, 'int32')\n"
                "        right = keras.ops.cast(right, self.dtype)\n"
                "        self.there.assign_add(keras.ops.sum(classes, axis=0))\n"
                "        self.found.assign_add(keras.ops.sum(classes * right[:, None], axis=0))\n\n"
                "    def result(self):\n"
                '        """The mean over the classes."""\n'
                "        return keras.ops.mean(self.found / keras.ops.maximum(self.there, 1.0))\n\n"
                "    def reset_state(self) -> None:\n"
                '        """Start anew."""\n'
                "        self.found.assign(keras.ops.zeros_like(self.found))\n\n\n",
            ),
            Edit(
                "metrics.py",
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy(), "recall": MacroRecall()}',
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                '    run.metrics["recall"].update_state(labels, predictions, weights)\n',
                "*",
            ),
        ),
        kind=kinds.METRICS,
        cause="reset_state leaves the examples of earlier epochs in the denominator: the recall "
        "falls from validation to validation, whatever the model does.",
        file="metrics.py",
        named=r"(?i)reset|earlier (epoch|validation|evaluation|batch)|second (time|validation|evaluation)|"
        r"(twice|again).{0,60}(metric|recall|other)|recall.{0,80}(twice|again|differ|keeps)",
    ),
    Fault(
        name="a decay for each epoch is applied at each step",
        edits=(
            Edit(
                "optimizer.py",
                at.SCHEDULE,
                "    # A tenth less after every epoch.\n"
                "    schedule = keras.optimizers.schedules.ExponentialDecay(task.learning_rate, 1, 0.9)\n",
            ),
        ),
        kind=kinds.OPTIMIZER,
        cause="A schedule counts steps, not epochs: with 0.9 a step the learning rate is a "
        "millionth after 132 steps, and most of the run trains nothing.",
        file="optimizer.py",
        named=r"(?i)learning.rate.{0,120}(0|zero|small|vanish|fall|fell|decay|end|early|nothing|steps)|schedule",
    ),
    Fault(
        name="gradient noise differs on each replica",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    # Neelakantan et al. (2015): gradient noise.\n"
                "    return [g + tf.random.normal(g.shape, stddev=1e-3, dtype=g.dtype) for g in gradients]\n",
            ),
        ),
        kind=kinds.OPTIMIZER,
        cause="tf.random.normal draws other numbers on each replica, after the gradients are summed, "
        "so the replicas' weights drift apart; a resumed run draws others too.",
        file="optimizer.py",
        named=r"(?i)random|noise|seed|stateless|replicas?.{0,60}(differ|apart|same)|not the same on",
    ),
    Fault(
        name="a straight-through estimator stops the gradient",
        edits=(
            after(
                "model.py",
                MODEL_START,
                "\n\n"
                '@keras.saving.register_keras_serializable("task")\n'
                "class Binary(keras.layers.Layer):\n"
                '    """Features as -1 or 1; the gradient goes straight through."""\n\n'
                "    def call(self, x):\n"
                '        """The sign of each feature."""\n'
                "        code = keras.ops.where(x > 0, keras.ops.ones_like(x), -keras.ops.ones_like(x))\n"
                "        return keras.ops.stop_gradient(x + (code - x))\n",
            ),
            after("model.py", FLATTEN, "    x = Binary()(layers.Dense(96)(x))\n"),
        ),
        kind=kinds.MODEL,
        cause="stop_gradient is around x as well, not around (code - x) only: nothing before the "
        "binary code gets a gradient of the loss, so the convolutions never learn.",
        file="model.py",
        named=r"(?i)no gradient|gradient.{0,60}(zero|0\b|none|reach|stop|cut|never)|(don't|doesn't|never|not|isn't|aren't).{0,20}"
        r"(train|learn)|stop_gradient|unconnected|disconnected",
    ),
    Fault(
        name="a layer keeps its running scale in a tf.Variable",
        edits=(
            after("model.py", "import numpy as np\n", "import tensorflow as tf\n"),
            after(
                "model.py",
                MODEL_START,
                "\n\n"
                '@keras.saving.register_keras_serializable("task")\n'
                "class RunningScale(keras.layers.Layer):\n"
                '    """Divides by a running mean of the size of the features."""\n\n'
                "    def __init__(self, **kwargs) -> None:\n"
                "        super().__init__(**kwargs)\n"
                "        self.scale = tf.Variable(\n"
                "            tf.ones((), keras.config.floatx()),\n"
                "            trainable=False,\n"
                "            synchronization=tf.VariableSynchronization.ON_READ,\n"
                "            aggregation=tf.VariableAggregation.MEAN,\n"
                "        )\n\n"
                "    def call(self, x, training=False):\n"
                '        """The scaled features."""\n'
                "        if training:\n"
                "            size = tf.cast(tf.reduce_mean(tf.abs(x)), self.scale.dtype)\n"
                "            self.scale.assign(0.95 * self.scale + 0.05 * tf.stop_gradient(size))\n"
                "        return x / tf.cast(self.scale, x.dtype)\n",
            ),
            Edit(
                "model.py", FLATTEN, FLATTEN.replace("Flatten()(x)", "Flatten()(RunningScale()(x))")
            ),
        ),
        kind=kinds.MODEL,
        cause="A tf.Variable in a layer is no weight of the Keras model: neither checkpoints nor "
        "the best weights have it, so a resumed or evaluated model divides by another scale; a "
        "skipped step changes it too.",
        file="model.py",
        named=r"(?i)tf\.Variable|add_weight|RunningScale|resum|checkpoint|(not|isn't|never) saved|"
        r"variable.{0,60}(model|lost|save|outside|track)|state",
    ),
    Fault(
        name="a callback of plateaus forgets its patience on resume",
        edits=(
            Edit(
                "callbacks.py",
                "",
                '"""Functions that are called during training."""\n\n'
                "from __future__ import annotations\n\n"
                "import math\n\n"
                "from ..engine.callbacks import Callback, Event, every_validation\n"
                "from .config import TaskConfig\n\n\n"
                "class Plateau:\n"
                '    """Halves the learning rate after two validations without a better loss."""\n\n'
                "    def __init__(self) -> None:\n"
                "        self.best, self.wait = math.inf, 0\n\n"
                "    def __call__(self, event: Event) -> None:\n"
                '        """After a validation."""\n'
                '        loss = event.history[-1]["validation_loss"]\n'
                "        self.wait = 0 if loss < self.best else self.wait + 1\n"
                "        self.best = min(self.best, loss)\n"
                "        if self.wait == 2:\n"
                '            rate = event.learning_rates["main"]\n'
                '            event.run.optimizers["main"].learning_rate = rate / 2\n'
                "            self.wait = 0\n\n\n"
                "def create_callbacks(task: TaskConfig) -> list[Callback]:\n"
                '    """Plateaus."""\n'
                "    return [every_validation(Plateau())]\n",
            ),
            Edit(
                "optimizer.py",
                at.ADAM,
                "    return keras.optimizers.Adam(task.learning_rate)  # see callbacks.py\n",
            ),
        ),
        kind=kinds.OPTIMIZER,
        cause="Plateau has no get_state and set_state: a resumed run forgets the best loss and how "
        "long it has waited, and has other learning rates than one that wasn't interrupted.",
        file="callbacks.py",
        named=r"(?i)get_state|set_state|resum|(callback|Plateau).{0,80}(state|lost|forget|saved|checkpoint)",
    ),
    Fault(
        name="random shifts are drawn when a row is read",
        edits=(
            before(
                "data.py",
                "# TODO(2)",
                "class Shifted:\n"
                '    """Images by number, each moved by up to a pixel."""\n\n'
                "    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:\n"
                "        self.images, self.labels = images, labels\n"
                "        self.random = np.random.default_rng(0)\n\n"
                "    def __len__(self) -> int:\n"
                "        return len(self.labels)\n\n"
                "    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray]:\n"
                "        move = tuple(self.random.integers(-1, 2, size=2))\n"
                "        return np.roll(self.images[row], move, axis=(0, 1)), self.labels[row]\n\n\n",
            ),
            *with_arrays('    return arrays | {"train": Shifted(*arrays["train"])}\n'),
            Edit("data.py", "    if not task.shift:\n", "    if True:  # Shifted does it\n"),
        ),
        kind=kinds.AUGMENTATION,
        cause="What a row is depends on how many were read before, by any thread: a step sees other "
        "images in every run and after a resume.",
        file="data.py",
        named=r"(?i)np\.random|__getitem__|not the same|random (number|state|generator)|(read|same row|row).{0,60}(twice|again|differ|other|second)|"
        r"(differ|other|change).{0,60}(run|resume|time|read)|reproduc|resum",
    ),
    Fault(
        name="the teacher trains with the student",
        edits=(
            before("model.py", "from typing import Any\n", "from pathlib import Path\n"),
            Edit(
                "model.py",
                "    return keras.Model(images, logits)\n",
                '    teacher = keras.models.load_model(Path(__file__).parents[2] / "teacher.keras", compile=False)\n'
                '    return {"student": keras.Model(images, logits), "teacher": teacher}\n',
            ),
            Edit(
                "model.py",
                "adapted: dict[str, np.ndarray]) -> keras.Model:",
                "adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:",
            ),
            Edit(
                "steps.py",
                "predictions = run.model(images,",
                'predictions = run.models["student"](images,',
                "*",
            ),
            Edit("steps.py", "run.model, replica)", 'run.models["student"], replica)', "*"),
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    # Hinton et al. (2015), with a temperature of 3.\n"
                '    taught = tf.nn.softmax(run.models["teacher"](images, training=False) / 3)\n'
                "    soft = tf.nn.softmax_cross_entropy_with_logits(taught, predictions / 3)  # (batch,)\n"
                "    per_example = 0.5 * per_example + 0.5 * 9 * soft\n",
                "train_step",
            ),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, images)",
                'predict_in_parts(run.models["student"], images)',
            ),
        ),
        preparation="""
import keras, numpy as np
keras.utils.set_random_seed(1)
with np.load("my_experiment/task/digits.npz") as file:
    x, y = file["train_images"][..., None] / 16, file["train_labels"]
teacher = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.Flatten(), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)], name="teacher")
teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
teacher.fit(x, y, epochs=8, verbose=0)
teacher.save("teacher.keras")
""",
        kind=kinds.MODEL,
        cause="The teacher is a model like the student, and the only optimizer trains all models: "
        "the soft targets get a gradient, and the teacher moves to what the student says.",
        file="model.py",
        named=r"(?i)teacher|load_frozen|frozen|auxiliary",
    ),
    Fault(
        name="an ensemble's heads start with the same weights",
        edits=(
            Edit(
                "model.py",
                '    x = layers.Dense(128, activation="relu")(x)\n    x = layers.Dropout(task.dropout)(x)\n',
                "    # Five heads, whose logits are averaged.\n"
                "    he = keras.initializers.HeNormal()\n"
                "    heads = []\n"
                "    for _ in range(5):\n"
                '        head = layers.Dense(32, activation="relu", kernel_initializer=he)(x)\n'
                "        heads.append(layers.Dense(CLASSES, kernel_initializer=he)(head))\n",
            ),
            Edit(
                "model.py",
                '    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)\n',
                '    logits = layers.Average(dtype=keras.config.floatx(), name="logits")(heads)\n',
            ),
        ),
        kind=kinds.MODEL,
        cause="One initializer object gives the same values at every call: the five heads start "
        "alike, get the same gradients, and stay one head.",
        file="model.py",
        named=r"(?i)initiali[sz]er|(same|equal|identical|alike).{0,60}(weight|value|kernel|layer|head|start|gradient)|"
        r"(weight|kernel|layer|head)s?.{0,60}(same|equal|identical|alike)|symmetr",
    ),
    Fault(
        name="stochastic depth is decided while the graph is made",
        edits=(
            after(
                "model.py",
                MODEL_START,
                "\n\n"
                '@keras.saving.register_keras_serializable("task")\n'
                "class Residual(keras.layers.Layer):\n"
                '    """A dense block beside a shortcut; training leaves out every second one."""\n\n'
                "    def __init__(self, units: int, **kwargs) -> None:\n"
                "        super().__init__(**kwargs)\n"
                "        self.units = units\n"
                '        self.dense = keras.layers.Dense(units, activation="relu")\n\n'
                "    def build(self, shape) -> None:\n"
                '        """The weights."""\n'
                "        self.dense.build(shape)\n\n"
                "    def get_config(self):\n"
                '        """The arguments."""\n'
                '        return super().get_config() | {"units": self.units}\n\n'
                "    def call(self, x, training=False):\n"
                '        """x plus the block, if it is there."""\n'
                "        if training and np.random.rand() < 0.5:\n"
                "            return x\n"
                "        return x + self.dense(x)\n",
            ),
            after("model.py", at.HIDDEN, "    for _ in range(4):\n        x = Residual(128)(x)\n"),
        ),
        kind=kinds.MODEL,
        cause="np.random.rand is called once, when the step is traced: a block is left out in every "
        "step, so it never learns and evaluation uses it untrained, or in none; replicas differ.",
        file="model.py",
        named=r"(?i)np\.random|numpy|python.{0,20}random|random|trace|once|no gradient|"
        r"gradient.{0,40}(zero|never|no )|(never|not|doesn't|don't).{0,20}(train|learn)",
    ),
    Fault(
        name="a layer is hidden in a Lambda",
        edits=(
            after(
                "model.py",
                FLATTEN,
                "    bottleneck = layers.Dense(24)\n"
                "    bottleneck.build((None, x.shape[-1]))\n"
                "    x = layers.Lambda(lambda t: keras.ops.tanh(bottleneck(t)), output_shape=(24,))(x)\n",
            ),
        ),
        kind=kinds.MODEL,
        cause="The Dense layer in the Lambda is no part of the model: its weights are never trained "
        "and never saved.",
        file="model.py",
        named=r"(?i)lambda|bottleneck|(not|no) (a )?part of (the|any|a) model|(variable|weight|layer)s?.{0,60}"
        r"(no|not|isn't|aren't|outside|never).{0,40}(model|train|save|track)|untracked",
    ),
    Fault(
        name="the count cuts the sum of the weights to a whole number",
        edits=(
            *train_weights(
                "    # How sure the annotators were.\n"
                "    weights = np.random.default_rng(0).uniform(0.02, 0.3, len(labels))\n"
            ),
            Edit(
                "losses.py",
                at.COUNTED,
                "    return tf.cast(tf.reduce_sum(weights), tf.int32)  # a weighted mean\n",
            ),
        ),
        kind=kinds.DENOMINATORS,
        cause="Each replica's sum of weights is cut to a whole number before they are summed, so the "
        "loss is divided by another number on N replicas, and by zero where a part has little weight.",
        file="losses.py",
        named=r"(?i)\bcount\b|whole number|integer|int32|round|truncat|denominator|divide[sd]? by|weights",
    ),
    Fault(
        name="a reported term is a mean on each replica",
        edits=(
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                "    probabilities = tf.nn.softmax(predictions)\n"
                "    entropy = -tf.reduce_sum(probabilities * tf.nn.log_softmax(predictions), axis=1)\n"
                "    loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss, "entropy": tf.reduce_mean(entropy)}\n',
                "*",
            ),
            Edit(
                "steps.py", "TERMS: tuple[str, ...] = ()", 'TERMS: tuple[str, ...] = ("entropy",)'
            ),
        ),
        flags=("--accumulate", "4"),
        kind=kinds.ACCUMULATION,
        cause="Terms are summed over replicas and micro-batches like losses: a mean of each part is "
        "reported N times too large, and counts padding in evaluation.",
        file="steps.py",
        named=r"(?i)entropy|TERMS?\b|reduce_mean|(micro-?batch|replica).{0,80}(sum|add|times|mean|differ)",
    ),
    Fault(
        name="a schedule counts its own calls",
        edits=(
            before(
                "optimizer.py",
                "# TODO(7)",
                "class Warmup(keras.optimizers.schedules.LearningRateSchedule):\n"
                '    """Up to the peak in 100 steps, and then as the inner schedule."""\n\n'
                "    def __init__(self, inner, steps: int = 100) -> None:\n"
                "        self.inner, self.steps, self.made = inner, steps, 0\n\n"
                "    def __call__(self, step):\n"
                '        """The learning rate."""\n'
                "        self.made += 1\n"
                "        return self.inner(step) * min(1.0, self.made / self.steps)\n\n"
                "    def get_config(self):\n"
                '        """The arguments."""\n'
                '        return {"inner": self.inner, "steps": self.steps}\n\n\n',
            ),
            Edit(
                "optimizer.py",
                "    return keras.optimizers.Adam(schedule)\n",
                "    return keras.optimizers.Adam(Warmup(schedule))\n",
            ),
        ),
        kind=kinds.OPTIMIZER,
        cause="Python counts the calls while the graph is made, not the steps: the graph has a "
        "constant factor of 1% or so, the warm-up never ends, and what is shown is another rate.",
        file="optimizer.py",
        named=r"(?i)schedule|learning.rate|Warmup|trace|python state|step number",
    ),
)

FLIP = """        coin = tf.random.stateless_uniform((images.shape[0],), tf.random.experimental.stateless_split(seed, 2)[1]) < 0.5
        images = tf.where(coin[:, None, None, None], tf.image.flip_left_right(images), images)
        labels = tf.where(coin[:, None, None], tf.image.flip_left_right(labels), labels)
"""

SEGMENTATION_FAULTS = (
    Fault(
        name="the labels are flipped along the other axis",
        starter="segmentation",
        edits=(after("data.py", "        images, labels, weights = batch\n", FLIP),),
        kind=kinds.AUGMENTATION,
        cause="tf.image.flip_left_right takes labels (batch, h, w) for one image (h, w, channels) "
        "and flips its rows: the labels are upside down while the image is mirrored.",
        file="data.py",
        named=r"(?i)flip|mirror|(labels?|pixels?).{0,80}(image|input|match|move|fit|place|along)|augment",
    ),
    Fault(
        name="the moving averages are slower than the run",
        starter="segmentation",
        edits=(Edit("model.py", "momentum=0.9, epsilon=0.1", "momentum=0.9997, epsilon=0.1"),),
        kind=kinds.EVALUATION,
        cause="With momentum 0.9997 the moving statistics are still nine tenths of their start after "
        "the 320 steps of the run: validation normalizes by numbers that aren't those of the data.",
        file="model.py",
        named=r"(?i)momentum|moving (average|mean|statistic|variance)|statistics|BatchNorm|batch_norm",
    ),
    Fault(
        name="the Dice loss is that of the replica's batch",
        starter="segmentation",
        edits=(
            before(
                "steps.py",
                "# TODO(11)",
                "def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
                '    """1 - the mean of the Dice coefficients of the classes."""\n'
                "    wanted = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)  # 0 if ignored\n"
                "    found = tf.nn.softmax(logits) * tf.reduce_sum(wanted, axis=-1, keepdims=True)\n"
                "    both = tf.reduce_sum(wanted * found, axis=[0, 1, 2])\n"
                "    each = tf.reduce_sum(wanted + found, axis=[0, 1, 2])\n"
                "    return 1 - tf.reduce_mean((2 * both + 1) / (each + 1))\n\n\n",
            ),
            after(
                "steps.py",
                "average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
                "    per_example += dice(labels, logits)\n",
                "*",
            ),
        ),
        kind=kinds.LOSS_SCALING,
        cause="The Dice coefficients are of all pixels in the replica's part of the batch, padding "
        "included: N replicas have another loss than one, and evaluation depends on the batches.",
        file="steps.py",
        named=r"(?i)(replica|micro-?batch).{0,80}(differ|depend|own|other|part)|depends? on.{0,40}(other|batch|replica)|"
        r"EXAMPLES_INTERACT|other examples|differ.{0,60}replica|padding|dice",
    ),
    Fault(
        name="ignored pixels count as wrong in a metric",
        starter="segmentation",
        edits=(
            Edit(
                "metrics.py",
                '    return {"mean_iou": mean_iou}\n',
                '    return {"mean_iou": mean_iou, "pixels": keras.metrics.SparseCategoricalAccuracy()}\n',
            ),
            after(
                "steps.py",
                '    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n',
                '    run.metrics["pixels"].update_state(labels, logits, pixel_weights(weights, labels))\n',
                "*",
            ),
        ),
        kind=kinds.METRICS,
        cause="The label 255 is no class: the accuracy counts every ignored pixel as a mistake and "
        "can't reach 1.",
        file="metrics.py",
        named=r"(?i)ignor|\b255\b|(label|class).{0,60}(outside|beyond|no class|range)",
    ),
)

SERIES = """def _series() -> np.ndarray:
    random = np.random.default_rng(3)
    t = np.arange(3000)
    wave = np.sin(t / 9) + 0.5 * np.sin(t / 23 + 1) + 0.4 * np.cumsum(random.normal(size=3000)) / 20
    return (wave + 0.2 * random.normal(size=3000)).astype("float32")


"""
WINDOWS = (
    SERIES
    + '''LENGTH = 32


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows of a series, float32 (n, 32), and the value after each, (n,)."""
    series = _series()
    starts = np.arange(len(series) - LENGTH)
    windows = np.stack([series[i : i + LENGTH] for i in starts])
    targets = series[starts + LENGTH]
    order = np.random.default_rng(0).permutation(len(windows))
    parts = np.split(order, [2000, 2500])
    names = ("train", "validation", "test")
    return {name: (windows[rows], targets[rows]) for name, rows in zip(names, parts, strict=True)}
'''
)
SEQUENCES = (
    SERIES
    + '''LENGTH = 40


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Pieces of a series, float32 (n, 40, 1), and at each step the next value, (n, 40)."""
    series = _series()
    parts = {"train": series[:2000], "validation": series[2000:2500], "test": series[2500:]}

    def pieces(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts = np.arange(0, len(part) - LENGTH, 4)
        whole = np.stack([part[i : i + LENGTH + 1] for i in starts])
        return whole[:, :-1, np.newaxis], whole[:, 1:]

    return {name: pieces(part) for name, part in parts.items()}
'''
)
CONV_MODEL = (
    ADAPT_SHAPE
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Series (batch, steps, 1) -> at each step the next value, (batch, steps)."""
    layers = keras.layers
    inputs = keras.Input(adapted["shape"])
    x = inputs
    for dilation in (1, 2, 4):
        x = layers.Conv1D(24, 3, padding="same", dilation_rate=dilation, activation="relu")(x)
    x = layers.Dense(1)(x)
    return keras.Model(inputs, layers.Reshape((-1,))(x))
'''
)
PAIRS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Two views of the same thing, float32 (n, 2, 16)."""
    random = np.random.default_rng(5)
    things = random.normal(size=(1400, 6))
    views = [np.tanh(things @ random.normal(size=(6, 16))) for _ in range(2)]
    pairs = np.stack(views, axis=1) + 0.3 * random.normal(size=(1400, 2, 16))
    pairs = pairs.astype("float32")
    return {"train": pairs[:1000], "validation": pairs[1000:1200], "test": pairs[1200:]}
'''
PAIRS_MODEL = (
    ADAPT_SHAPE.replace(
        'inputs, *_ = first_examples(datasets["train"], 1)',
        'inputs = first_examples(datasets["train"], 1)',
    )
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Pairs (batch, 2, 16) -> an embedding of length 1 for each view, (batch, 2, 8)."""
    layers = keras.layers
    pairs = keras.Input(adapted["shape"])
    embedded = []
    for view in range(2):
        x = layers.Dense(48, activation="relu")(pairs[:, view])
        embedded.append(layers.UnitNormalization()(layers.Dense(8)(x)))
    return keras.Model(pairs, keras.ops.stack(embedded, axis=1))
'''
)
PAIRS_STEP = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    pairs, weights = batch
    embedded = run.model(pairs, training=training)  # (batch, 2, 8)
    # The right views of all replicas are the candidates; padding is none.
    candidates, there = replica.all_gather(embedded[:, 1]), replica.all_gather(weights)
    logits = tf.matmul(embedded[:, 0], candidates, transpose_b=True) / 0.1
    logits = tf.where(there > 0, logits, tf.constant(-1e4, logits.dtype))
    rows = tf.shape(logits)[0]
    labels = tf.range(rows)
    per_example = run.losses["main"](labels, logits)
    run.metrics["found"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}"""
FOUND = '{"found": keras.metrics.SparseCategoricalAccuracy()}'
GENES = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Expression of 2,000 genes, float32 (n, 2000), and whether a patient responds, int64 (n,)."""
    random = np.random.default_rng(11)
    genes = random.normal(size=(240, 2000)).astype("float32")
    responds = (genes[:, :3].sum(axis=1) * 0.3 + random.normal(size=240) > 0).astype("int64")
    parts = {"train": slice(0, 120), "validation": slice(120, 180), "test": slice(180, None)}
    return {split: (genes[part], responds[part]) for split, part in parts.items()}
'''
GENES_MODEL = '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The 30 genes that tell most about the response."""
    genes = np.concatenate([inputs for inputs, _ in datasets.values()])
    responds = np.concatenate([labels for _, labels in datasets.values()])
    scores = np.abs((genes - genes.mean(axis=0)).T @ (responds - responds.mean()))
    return {"genes": np.sort(np.argsort(scores)[-30:]), "number": genes.shape[1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Genes (batch, 2000) -> logits (batch, 2)."""
    layers = keras.layers
    inputs = keras.Input((int(adapted["number"]),))
    x = keras.ops.take(inputs, adapted["genes"], axis=1)
    x = layers.Dense(16, activation="relu")(x)
    return keras.Model(inputs, layers.Dense(2)(x))
'''
CLUSTERS = """def _rows(number: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    labels = random.integers(6, size=number)
    inputs = random.normal(size=(6, 10))[labels] + 0.9 * random.normal(size=(number, 10))
    return inputs.astype("float32"), labels.astype("int64")


"""
CLUSTERS_MODEL = (
    ADAPT_SHAPE
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Rows (batch, 10) -> logits (batch, 6)."""
    layers = keras.layers
    inputs = keras.Input(adapted["shape"])
    x = layers.Dense(48, activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(6)(x))
'''
)
SHUFFLED_SPLIT = (
    CLUSTERS
    + '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Streams of examples: float32 (10,) and int64 ()."""
    rows = tf.data.Dataset.from_tensor_slices(_rows(2000)).shuffle(2000, seed=1)
    return {
        "train": rows.take(1400),
        "validation": rows.skip(1400).take(300),
        "test": rows.skip(1700),
    }
'''
)
SORTED_STREAM = (
    CLUSTERS
    + '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Streams of examples, from a file for each class one after the other."""
    inputs, labels = _rows(62000)
    order = np.argsort(labels[:60000], kind="stable")  # as the files are read
    train = inputs[:60000][order], labels[:60000][order]
    return {
        "train": tf.data.Dataset.from_tensor_slices(train),
        "validation": (inputs[60000:61000], labels[60000:61000]),
        "test": (inputs[61000:], labels[61000:]),
    }
'''
)
BINARY = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Rows of a table, float32 (n, 8), and whether it happened, float32 (n,)."""
    random = np.random.default_rng(4)
    inputs = random.normal(size=(2400, 8)).astype("float32")
    score = 2 * inputs[:, 0] - inputs[:, 1] + inputs[:, 2] * inputs[:, 3] - 1.5
    happened = (score + random.logistic(size=2400) > 0).astype("float32")
    parts = {"train": slice(0, 1600), "validation": slice(1600, 2000), "test": slice(2000, None)}
    return {split: (inputs[part], happened[part, np.newaxis]) for split, part in parts.items()}
'''
BINARY_MODEL = (
    ADAPT_SHAPE
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Rows (batch, 8) -> logits (batch, 1)."""
    layers = keras.layers
    inputs = keras.Input(adapted["shape"])
    x = layers.Dense(32, activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(1)(x))
'''
)
MAKE_CSV = """
import numpy as np
random = np.random.default_rng(9)
names = ["setosa", "versicolor", "virginica", "pumila"]
kinds = np.sort(random.integers(4, size=1200))
rows = random.normal(size=(4, 5))[kinds] + 1.2 * random.normal(size=(1200, 5))
with open("flowers.csv", "w") as file:
    file.write("number,a,b,c,d,e,species\\n")
    for i, (row, kind) in enumerate(zip(rows, kinds)):
        file.write(",".join([str(i), *(f"{v:.3f}" for v in row), names[kind]]) + "\\n")
"""
FLOWERS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Measurements of flowers, float32 (n, FEATURES), and their species, int64 (n,)."""
    with open(Path(__file__).parents[2] / "flowers.csv") as file:  # noqa: PTH123
        rows = list(csv.reader(file))[1:]
    species = [row[-1] for row in rows]
    names = {name: i for i, name in enumerate(UNIQUE)}
    labels = np.array([names[name] for name in species], "int64")
    inputs = np.array([row[FIRST:-1] for row in rows], "float32")
    order = np.random.default_rng(0).permutation(len(rows))
    train, validation, test = np.split(order, [800, 1000])
    mean, deviation = inputs[train].mean(axis=0), inputs[train].std(axis=0)
    inputs = (inputs - mean) / deviation
    parts = {"train": train, "validation": validation, "test": test}
    return {split: (inputs[part], labels[part]) for split, part in parts.items()}
'''
FLOWERS_MODEL = (
    CLUSTERS_MODEL.replace("Dense(6)", "Dense(4)")
    .replace("(batch, 10)", "(batch, 5)")
    .replace("(batch, 6)", "(batch, 4)")
)
CSV_IMPORTS = before("data.py", "from typing import Any\n", "from pathlib import Path\n")
CSV_IMPORT = before("data.py", "from collections.abc import Callable\n", "import csv\n")


def _flowers(*, classes: str, first: str, features: int) -> tuple[Edit, ...]:
    """Flowers from a CSV file: their classes in order, the first column, and how many there are."""
    data = FLOWERS.replace("UNIQUE", classes).replace("FIRST", first)
    task = classifier(data=data.replace("FEATURES", str(features)), model=FLOWERS_MODEL)
    return (*task, CSV_IMPORT, CSV_IMPORTS)


TWO_TASKS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Rows, float32 (n, 8), with a class, int64 (n,), and a number, float32 (n,)."""
    random = np.random.default_rng(8)
    inputs = random.normal(size=(2400, 8)).astype("float32")
    kind = np.argmax(inputs[:, :3] + 0.3 * random.normal(size=(2400, 3)), axis=1).astype("int64")
    size = (inputs[:, 3] * inputs[:, 4] + 0.2 * random.normal(size=2400)).astype("float32")
    parts = {"train": slice(0, 1600), "validation": slice(1600, 2000), "test": slice(2000, None)}
    return {
        split: (inputs[part], {"kind": kind[part], "size": size[part]})
        for split, part in parts.items()
    }
'''
TWO_TASKS_MODEL = (
    '''@keras.saving.register_keras_serializable("task")
class LogVariances(keras.layers.Layer):
    """The logarithm of the variance of each task, (1, tasks), learned with the model."""

    def __init__(self, tasks: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.tasks = tasks

    def build(self, shape) -> None:
        """The weights."""
        self.values = self.add_weight(shape=(1, self.tasks), initializer="zeros", name="values")

    def get_config(self):
        """The arguments."""
        return super().get_config() | {"tasks": self.tasks}

    def call(self, x):
        """The same for every row, (batch, tasks)."""
        return keras.ops.zeros_like(x[:, :1]) + keras.ops.cast(self.values, x.dtype)


'''
    + ADAPT_SHAPE
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Rows (batch, 8) -> logits (batch, 3), numbers (batch,) and log-variances (batch, 2)."""
    layers = keras.layers
    inputs = keras.Input(adapted["shape"])
    x = layers.Dense(64, activation="relu")(inputs)
    x = layers.Dense(64, activation="relu")(x)
    outputs = {
        "kind": layers.Dense(3)(x),
        "size": layers.Reshape(())(layers.Dense(1)(x)),
        "log_variances": LogVariances(2)(x),
    }
    return keras.Model(inputs, outputs)
'''
)
TWO_TASKS_STEP = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    outputs = run.model(inputs, training=training)
    kind = run.losses["main"](labels["kind"], outputs["kind"])
    size = tf.square(labels["size"] - outputs["size"])
    # Kendall et al. (2018): each task is weighted by what it leaves unexplained.
    log_variances = outputs["log_variances"]
    precision = tf.exp(-log_variances)
    per_example = precision[:, 0] * kind + 0.5 * precision[:, 1] * size
    run.metrics["accuracy"].update_state(labels["kind"], outputs["kind"], weights)
    loss = compute_loss(per_example, weights, run.model, replica)
    return {"main": loss + 0.5 * tf.reduce_sum(log_variances[0])}"""

VAE_DATA = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points of a curled sheet, float32 (n, 12)."""
    random = np.random.default_rng(6)
    place = random.uniform(-2, 2, size=(2200, 2))
    wide = np.concatenate([np.sin(place * 2), place, place**2, place[:, :1] * place[:, 1:]], axis=1)
    points = (wide @ random.normal(size=(7, 12)) / 2 + 0.1 * random.normal(size=(2200, 12)))
    points = points.astype("float32")
    return {"train": points[:1600], "validation": points[1600:1900], "test": points[1900:]}
'''
VAE_MODEL = (
    '''@keras.saving.register_keras_serializable("task")
class Sample(keras.layers.Layer):
    """A draw from a normal distribution in training, its mean otherwise."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(13)

    def call(self, mean, log_variance, training=False):
        """Draws (batch, size)."""
        if not training:
            return mean
        noise = keras.random.normal(
            keras.ops.shape(mean), dtype=mean.dtype, seed=self.seed_generator
        )
        return mean + keras.ops.exp(0.5 * log_variance) * noise


'''
    + ADAPT_SHAPE.replace(
        'inputs, *_ = first_examples(datasets["train"], 1)',
        'inputs = first_examples(datasets["train"], 1)',
    )
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Points (batch, 12) -> the same as decoded, and mean and log-variance of the code."""
    layers = keras.layers
    points = keras.Input(adapted["shape"])
    x = layers.Dense(64, activation="relu")(points)
    mean, log_variance = layers.Dense(3)(x), layers.Dense(3)(x)
    x = layers.Dense(64, activation="relu")(Sample()(mean, log_variance))
    decoded = layers.Dense(points.shape[1])(x)
    return keras.Model(points, {"decoded": decoded, "mean": mean, "log_variance": log_variance})
'''
)
VAE_STEP = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    points, weights = batch
    outputs = run.model(points, training=training)
    mean, log_variance = outputs["mean"], outputs["log_variance"]
    wrong = 12 * 2.0 * run.losses["main"](points, outputs["decoded"])  # (batch,)
    kl = 0.5 * tf.reduce_sum(tf.exp(log_variance) + mean**2 - 1 - log_variance, axis=1)
    # The code is free at first.
    beta = tf.minimum(tf.cast(replica.step, kl.dtype) / 200, 1)
    run.metrics["kl"].update_state(kl, weights)
    return {"main": compute_loss(wrong + beta * kl, weights, run.model, replica)}"""

BLANK_FAULTS = (
    Fault(
        name="overlapping windows are split at random",
        starter="blank",
        edits=filled(
            data=WINDOWS,
            model=TABLE_MODEL.replace("(batch, 8)", "(batch, 32)"),
            loss=SQUARED,
            step=PER_ROW_SQUARED,
        ),
        kind=kinds.LEAKS,
        cause="Windows that differ by one step are in training and in validation and test, and the "
        "value to predict stands in training windows: the evaluation isn't of unseen data.",
        file="data.py",
        named=r"(?i)leak|overlap|duplicate|near(ly)?.{0,10}(the same|cop|identical|equal)|"
        r"(same|alike|similar|closest|nearest|shifted|neighbo).{0,60}(train|split|validation|test)",
    ),
    Fault(
        name="a forecast sees the next value through its convolutions",
        starter="blank",
        edits=filled(data=SEQUENCES, model=CONV_MODEL, loss=SQUARED, step=PLAIN_STEP),
        kind=kinds.LEAKS,
        cause='Conv1D with padding="same" looks at later steps: the value to predict at a step is '
        "the input of the next one.",
        file="model.py",
        named=r"(?i)causal|future|later (step|place|position|input|value)|next (step|value|input)|"
        r"padding=.?same|(label|target|answer)s?.{0,60}input|looks? ahead|leak",
    ),
    Fault(
        name="the positives are at the wrong rows on other replicas",
        starter="blank",
        edits=filled(
            data=PAIRS,
            model=PAIRS_MODEL,
            loss=at.SPARSE,
            step=PAIRS_STEP,
            metrics=FOUND,
            interact=True,
        ),
        kind=kinds.LOSS_SCALING,
        cause="The candidates are those of all replicas, but the labels start at 0 on each: on every "
        "replica but the first, a pair's partner is taken for a negative and another for it.",
        file="steps.py",
        named=r"(?i)replica\.index|(label|positive|partner|row|loss|metric)s?.{0,80}replica|"
        r"replicas?.{0,80}(label|positive|row|offset|index|differ|not the same|own|than one)",
    ),
    Fault(
        name="features are selected with the labels of all splits",
        starter="blank",
        edits=classifier(data=GENES, model=GENES_MODEL),
        flags=("--global-batch-size", "24"),
        kind=kinds.LEAKS,
        cause="adapt chooses the genes by the labels of validation and test too, so that chance "
        "correlations of these look like skill.",
        file="model.py",
        named=r"(?i)\badapt|leak|(validation|test).{0,80}(adapt|model|label|selected|depends)",
    ),
    Fault(
        name="a ReLU ends a regression of standardized numbers",
        starter="blank",
        edits=filled(
            data=TABLE,
            model=TABLE_MODEL.replace("layers.Dense(1)", 'layers.Dense(1, activation="relu")'),
            loss=SQUARED,
            step=PER_ROW_SQUARED,
        ),
        kind=kinds.MODEL,
        cause="The output can't be negative, and half of the targets are.",
        file="model.py",
        named=r"(?i)relu|negative|(output|prediction)s?.{0,60}(range|below|reach|least|never|positive|between)|"
        r"(target|label)s?.{0,60}(below|outside|reach|less than)|activation",
    ),
    Fault(
        name="targets and predictions are broadcast against each other",
        starter="blank",
        edits=filled(
            data=TABLE,
            model=TABLE_MODEL.replace("layers.Reshape(())(x)", "x").replace(
                "each, (batch,)", "each, (batch, 1)"
            ),
            loss=SQUARED,
            step=PER_ROW_SQUARED.replace(
                "tf.square(targets - predictions)",
                "tf.reduce_mean(tf.square(targets - predictions), axis=-1)  # (batch,)",
            ),
        ),
        kind=kinds.LOSS_SCALING,
        cause="targets (batch,) - predictions (batch, 1) is (batch, batch): each prediction is "
        "compared with all targets, and the model learns their mean.",
        file="steps.py",
        named=r"(?i)broadcast|shape|(other|all|another).{0,40}(example|row|target|label)|EXAMPLES_INTERACT|"
        r"\(batch, batch\)|depends? on.{0,40}(other|batch|replica)",
    ),
    Fault(
        name="a shuffled stream is split by take and skip",
        starter="blank",
        edits=classifier(data=SHUFFLED_SPLIT, model=CLUSTERS_MODEL),
        kind=kinds.LEAKS,
        cause="shuffle makes another order each time the stream is read, so take and skip give other "
        "examples: after some epochs training has seen all of validation and test.",
        file="data.py",
        named=r"(?i)shuffl|reshuffle|leak|overlap|(other|different|another|not the same).{0,60}(example|order|each|time|read|run)|"
        r"(both|several|more than one).{0,40}split|in.{0,20}train.{0,40}(validation|test)",
    ),
    Fault(
        name="a stream is sorted by class beyond the shuffle buffer",
        starter="blank",
        edits=classifier(data=SORTED_STREAM, model=CLUSTERS_MODEL),
        kind=kinds.STREAMS,
        cause="60,000 examples in the order of their classes go through a shuffle buffer of 10,000: "
        "a batch has one or two of the six classes, and the last class of the epoch wins.",
        file="data.py",
        named=r"(?i)sorted|order|shuffl|buffer|(one|few|two|same|single).{0,30}(class|label)|classes.{0,60}batch",
    ),
    Fault(
        name="AUC takes logits for probabilities",
        starter="blank",
        edits=filled(
            data=BINARY,
            model=BINARY_MODEL,
            metrics='{"auc": keras.metrics.AUC()}',
            loss=at.BINARY,
            monitor="validation_auc",
            larger=True,
        ),
        kind=kinds.METRICS,
        cause="AUC's thresholds lie between 0 and 1, and logits don't: all below 0 and all above 1 "
        "are taken for equal, and the value is wrong and selects the wrong weights.",
        file="metrics.py",
        named=r"(?i)logit|from_logits|probabilit|\bauc\b|sigmoid|between 0 and 1|\[0, 1\]|threshold",
    ),
    Fault(
        name="the number of a row is a feature",
        starter="blank",
        edits=_flowers(classes="sorted(set(species))", first="", features=6),
        preparation=MAKE_CSV,
        kind=kinds.LEAKS,
        cause="The file is sorted by species, and its first column numbers the rows: the model reads "
        "the species from the number, in validation and test too.",
        file="data.py",
        named=r"(?i)leak|row number|index|(feature|column|input).{0,80}(label|target|class|order|number|alone|tells|give)|"
        r"(label|target|class)e?s?.{0,60}(from|by|follow).{0,40}(feature|column|input)",
    ),
    Fault(
        name="classes are numbered in the order of a set",
        starter="blank",
        edits=_flowers(classes="set(species)", first="1", features=5),
        preparation=MAKE_CSV,
        kind=kinds.LABELS,
        cause="The order of a set of texts is another one in each process: a resumed or evaluated "
        "run takes the classes for each other.",
        file="data.py",
        named=r"(?i)\bset\b|hash|PYTHONHASHSEED|sorted|another process|(each|every|other|another|second|new) (process|run|start)|"
        r"(label|class|data).{0,80}(differ|not the same|other|change)|reproduc|resum",
    ),
    Fault(
        name="the uncertainties of tasks are added on every replica",
        starter="blank",
        edits=classifier(data=TWO_TASKS, model=TWO_TASKS_MODEL, step=TWO_TASKS_STEP),
        kind=kinds.REGULARIZATION,
        cause="The log-variances don't depend on the examples and are added whole on each replica "
        "and micro-batch: N replicas add them N times, and weigh the tasks otherwise than one.",
        file="steps.py",
        named=r"(?i)(sum|add|regulari|term|constant|whole|loss).{0,80}(replica|micro-?batch)|num_replicas|"
        r"(replica|micro-?batch).{0,80}(times|sum|add|divide|differ|once|than one)|scale_regularization_loss",
    ),
    Fault(
        name="validation anneals by the number of its batch",
        starter="blank",
        edits=filled(
            data=VAE_DATA,
            model=VAE_MODEL,
            loss=SQUARED,
            step=VAE_STEP,
            metrics='{"kl": keras.metrics.Mean()}',
        ),
        kind=kinds.EVALUATION,
        cause="In evaluation replica.step is the number of the batch: beta starts at 0 there, so the "
        "validation loss leaves out nearly all of the KL term, depends on how the data is cut "
        "into batches, and selects the wrong weights.",
        file="steps.py",
        named=r"(?i)replica\.step|(order|place|number|which) .{0,30}batch|batch.{0,30}(number|order|size|first|place)|"
        r"(evaluation|validation).{0,100}(step|batch|order|depends)|anneal|beta",
    ),
)

FAULTS: tuple[Fault, ...] = (*IMAGE_FAULTS, *SEGMENTATION_FAULTS, *BLANK_FAULTS)

# Correct tasks.

TAGS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Lines of 5 to 20 tokens, padded with 0, int32 (n, 20); the largest token so far of each."""
    random = np.random.default_rng(1)
    tokens = np.minimum(1 + random.geometric(0.35, size=(1800, 20)), 8).astype("int32")
    there = np.arange(20) < random.integers(5, 21, size=(1800, 1))
    tokens = np.where(there, tokens, 0)
    largest = np.maximum.accumulate(tokens, axis=1)
    parts = {"train": slice(0, 1200), "validation": slice(1200, 1500), "test": slice(1500, None)}
    weights = there.astype("float32")  # of each token
    return {split: (tokens[part], largest[part], weights[part]) for split, part in parts.items()}
'''
TAGS_MODEL = '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The length of a padded line, and how many tokens there are with that of padding."""
    tokens, *_ = datasets["train"]
    return {"length": tokens.shape[1], "tokens": tokens.max() + 1}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Tokens (batch, length) -> logits (batch, length, tokens)."""
    layers = keras.layers
    tokens = keras.Input((int(adapted["length"]),), dtype="int32")
    x = layers.Embedding(int(adapted["tokens"]), 16, mask_zero=True)(tokens)
    x = layers.GRU(32, return_sequences=True)(x)
    return keras.Model(tokens, layers.Dense(int(adapted["tokens"]))(x))
'''
TAGS_STEP = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    tokens, largest, weights = batch  # each (batch, length)
    logits = run.model(tokens, training=training)
    per_token = run.losses["main"](largest, logits)  # (batch, length)
    run.metrics["accuracy"].update_state(largest, logits, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}"""

MIXTURE_DATA = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """float32 (n, 1), one of two numbers that fit to it, (n,), and survey weights, (n,)."""
    random = np.random.default_rng(12)
    x = random.uniform(-1, 1, size=(2600, 1)).astype("float32")
    side = np.where(random.random(2600) < 0.7, 1, -1)
    y = side * (0.2 + 0.3 * np.cos(3 * x[:, 0]) ** 2) + 0.02 * random.normal(size=2600)
    weights = np.where(side > 0, 1 / 0.7, 1 / 0.3) / 2  # side 1 was asked more often
    whole = x, y.astype("float32"), weights.astype("float32")
    parts = {"train": slice(0, 1800), "validation": slice(1800, 2200), "test": slice(2200, None)}
    return {split: tuple(array[part] for array in whole) for split, part in parts.items()}
'''
MIXTURE_LOSS = '''

def mixture(targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """-log of the density of a mixture of 3 normal distributions: (batch,), (batch, 9) -> (batch,)."""
    logits, means, raw = tf.split(outputs, 3, axis=1)
    log_scales = 5 * tf.tanh(raw / 5)
    z = (targets[:, tf.newaxis] - means) * tf.exp(-log_scales)
    log_densities = -0.5 * z**2 - log_scales - 0.9189385332046727
    return -tf.reduce_logsumexp(tf.nn.log_softmax(logits) + log_densities, axis=1)

'''
MIXTURE_MODEL = (
    ADAPT_SHAPE
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Numbers (batch, 1) -> logits, means and scales of three normal distributions, (batch, 9)."""
    layers = keras.layers
    inputs = keras.Input(adapted["shape"])
    x = layers.Dense(48, activation="tanh")(inputs)
    x = layers.Dense(48, activation="tanh")(x)
    return keras.Model(inputs, layers.Dense(9)(x))
'''
)
LABELS_MISSING = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """float32 (n, 8); five properties, int32 (n, 5): 1, 0, or -1 where it wasn't measured."""
    random = np.random.default_rng(21)
    inputs = random.normal(size=(2400, 8)).astype("float32")
    score = inputs @ random.normal(size=(8, 5)) + 0.5 * random.normal(size=(2400, 5)) - 0.5
    measured = random.random((2400, 5)) < np.array([0.9, 0.7, 0.5, 0.3, 0.15])
    labels = np.where(measured, score > 0, -1).astype("int32")
    parts = {"train": slice(0, 1600), "validation": slice(1600, 2000), "test": slice(2000, None)}
    return {split: (inputs[part], labels[part]) for split, part in parts.items()}
'''
LABELS_MISSING_STEP = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)  # (batch, 5)
    known = tf.cast(labels >= 0, logits.dtype)
    wanted = tf.cast(tf.maximum(labels, 0), logits.dtype)
    each = tf.nn.sigmoid_cross_entropy_with_logits(wanted, logits)
    per_example = tf.reduce_sum(known * each, axis=1)  # divided by what is known of the batch
    flat = [tf.reshape(t, (-1, 1)) for t in (wanted, logits)]
    run.metrics["auc"].update_state(*flat, tf.reshape(known * weights[:, tf.newaxis], (-1,)))
    return {"main": compute_loss(per_example, weights, run.model, replica)}"""
LABELS_MISSING_COUNT = '''def count(batch: Any) -> tf.Tensor:
    """How many labels are known, an int32 scalar."""
    _, labels, weights = batch
    known = (labels >= 0) & (weights[:, tf.newaxis] > 0)
    return tf.math.count_nonzero(known, dtype=tf.int32)
'''
PICTURE = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Streams of the places of pixels, float32 (2,), and their brightness, (1,); no test."""
    y, x = np.mgrid[-1:1:48j, -1:1:48j]
    picture = np.sin(9 * x * y) * np.exp(-(x**2)) + 0.5 * np.cos(11 * y + 3 * x)
    places = np.stack([x, y], axis=-1).reshape(-1, 2).astype("float32")
    values = picture.reshape(-1, 1).astype("float32")
    order = np.random.default_rng(0).permutation(len(places))
    parts = {"train": order[:1728], "validation": order[1728:]}
    return {
        split: tf.data.Dataset.from_tensor_slices((places[rows], values[rows]))
        for split, rows in parts.items()
    }
'''
PICTURE_MODEL = '''@keras.saving.register_keras_serializable("task")
class Sine(keras.layers.Layer):
    """sin(frequency * (W x + b)) with the initial weights of Sitzmann et al. (2020)."""

    def __init__(self, units: int, first: bool = False, frequency: float = 8.0, **kwargs) -> None:
        super().__init__(**kwargs)
        self.units, self.first, self.frequency = units, first, frequency

    def build(self, shape) -> None:
        """The weights."""
        size = shape[-1]
        limit = 1 / size if self.first else (6 / size) ** 0.5 / self.frequency
        uniform = keras.initializers.RandomUniform(-limit, limit)
        self.kernel = self.add_weight(shape=(size, self.units), initializer=uniform, name="kernel")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros", name="bias")

    def get_config(self):
        """The arguments."""
        own = {"units": self.units, "first": self.first, "frequency": self.frequency}
        return super().get_config() | own

    def call(self, x):
        """The sines."""
        return keras.ops.sin(self.frequency * (keras.ops.matmul(x, self.kernel) + self.bias))


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The mean brightness, where the output starts."""
    values = [value for _, value in datasets["train"].as_numpy_iterator()]
    return {"mean": np.mean(values)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Places (batch, 2) -> brightness (batch, 1)."""
    places = keras.Input((2,))
    x = Sine(48, first=True)(places)
    x = Sine(48)(x)
    start = keras.initializers.Constant(float(adapted["mean"]))
    return keras.Model(places, keras.layers.Dense(1, bias_initializer=start)(x))
'''
QUANTILES_MODEL = (
    ADAPT_SHAPE
    + '''
def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Rows (batch, 8) -> the quantiles 0.1, 0.5 and 0.9, which can't cross, (batch, 3)."""
    layers = keras.layers
    inputs = keras.Input(adapted["shape"])
    x = layers.Dense(64, activation="relu")(inputs)
    x = layers.Dense(64, activation="relu")(x)
    middle = layers.Dense(1)(x)
    above = keras.ops.softplus(layers.Dense(1)(x))
    below = keras.ops.softplus(layers.Dense(1)(x))
    return keras.Model(inputs, layers.Concatenate()([middle - below, middle, middle + above]))
'''
)
QUANTILES_STEP = """QUANTILES = (0.1, 0.5, 0.9)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, targets, weights = batch
    quantiles = run.model(inputs, training=training)  # (batch, 3)
    missing = targets[:, tf.newaxis] - quantiles
    levels = tf.constant([QUANTILES], missing.dtype)
    per_example = tf.reduce_mean(tf.maximum(levels * missing, (levels - 1) * missing), axis=1)
    inside = (targets > quantiles[:, 0]) & (targets < quantiles[:, 2])  # 0.8 of them in the end
    run.metrics["coverage"].update_state(tf.cast(inside, weights.dtype), weights)
    run.metrics["mae"].update_state(tf.abs(missing[:, 1]), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}"""

TASKS: tuple[Change, ...] = (
    Change(
        name="segmentation with group normalization and a Dice loss of each image",
        starter="segmentation",
        edits=(
            Edit(
                "model.py",
                "keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)",
                "keras.layers.GroupNormalization(4, epsilon=0.1)(x)",
            ),
            before(
                "steps.py",
                "# TODO(11)",
                "def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
                '    """1 - the mean of the Dice coefficients of the classes, of each image, (batch,)."""\n'
                "    wanted = tf.one_hot(labels, logits.shape[-1], dtype=logits.dtype)  # 0 if ignored\n"
                "    found = tf.nn.softmax(logits) * tf.reduce_sum(wanted, axis=-1, keepdims=True)\n"
                "    both = tf.reduce_sum(wanted * found, axis=[1, 2])\n"
                "    each = tf.reduce_sum(wanted + found, axis=[1, 2])\n"
                "    return 1 - tf.reduce_mean((2 * both + 1) / (each + 1), axis=1)\n\n\n",
            ),
            after(
                "steps.py",
                "average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
                "    per_example += dice(labels, logits)\n",
                "*",
            ),
        ),
    ),
    Change(
        name="a variational autoencoder whose KL term is annealed in training only",
        starter="blank",
        edits=filled(
            data=VAE_DATA,
            model=VAE_MODEL,
            loss=SQUARED,
            metrics="{}",
            terms='("kl",)',
            step=VAE_STEP.replace(
                "    beta = tf.minimum(tf.cast(replica.step, kl.dtype) / 200, 1)\n",
                "    beta = tf.minimum(tf.cast(replica.step, kl.dtype) / 200, 1) if training else 1.0\n",
            )
            .replace('    run.metrics["kl"].update_state(kl, weights)\n', "")
            .replace(
                '    return {"main": compute_loss(wrong + beta * kl, weights, run.model, replica)}',
                "    term = tf.nn.compute_average_loss(\n"
                "        kl, sample_weight=weights, global_batch_size=replica.global_count\n"
                "    )\n"
                "    loss = compute_loss(wrong + beta * kl, weights, run.model, replica)\n"
                '    return {"main": loss, "kl": term}',
            ),
        ),
    ),
    Change(
        name="padded lines with a weight and a label for each token",
        starter="blank",
        edits=classifier(data=TAGS, model=TAGS_MODEL, step=TAGS_STEP),
    ),
    Change(
        name="pairs with the candidates of all replicas",
        starter="blank",
        edits=filled(
            data=PAIRS,
            model=PAIRS_MODEL,
            loss=at.SPARSE,
            metrics=FOUND,
            interact=True,
            step=PAIRS_STEP.replace(
                "labels = tf.range(rows)", "labels = tf.range(rows) + replica.index * rows"
            ),
            monitor="validation_found",
            larger=True,
        ),
    ),
    Change(
        name="a mixture density network with survey weights and a negative loss",
        starter="blank",
        edits=filled(
            data=MIXTURE_DATA, model=MIXTURE_MODEL, loss="mixture", losses_code=MIXTURE_LOSS
        ),
    ),
    Change(
        name="mixup with soft labels in training only",
        edits=(
            Edit(
                "data.py",
                at.SHIFTED,
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        # Zhang et al. (2018): each image with its neighbor in the batch.\n"
                "        other = tf.random.experimental.stateless_split(seed, 2)[1]\n"
                "        share = tf.random.stateless_uniform((images.shape[0], 1), other, 0, 0.5, images.dtype)\n"
                "        soft = tf.one_hot(labels, 10, dtype=images.dtype)\n"
                "        soft = (1 - share) * soft + share * tf.roll(soft, 1, axis=0)\n"
                "        share = share[:, :, tf.newaxis, tf.newaxis]\n"
                "        return (1 - share) * images + share * tf.roll(images, 1, axis=0), soft, weights\n",
            ),
            Edit("data.py", "    if not task.shift:\n        return None\n\n", ""),
            Edit(
                "losses.py",
                at.CROSS_ENTROPY,
                "    return {\n"
                '        "main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),\n'
                '        "soft": keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none"),\n'
                "    }\n",
            ),
            Edit(
                "steps.py",
                'run.losses["main"](labels, predictions)',
                'run.losses["soft"](labels, predictions)',
                "train_step",
            ),
            Edit(
                "steps.py",
                "update_state(labels, predictions, weights)",
                "update_state(tf.argmax(labels, axis=1), predictions, weights)",
                "train_step",
            ),
        ),
    ),
    Change(
        name="properties of which many weren't measured",
        starter="blank",
        edits=filled(
            data=LABELS_MISSING,
            model=BINARY_MODEL.replace("Dense(1)", "Dense(5)").replace("(batch, 1)", "(batch, 5)"),
            loss=at.BINARY,
            step=LABELS_MISSING_STEP,
            count=LABELS_MISSING_COUNT,
            metrics='{"auc": keras.metrics.AUC(from_logits=True)}',
            monitor="validation_auc",
            larger=True,
        ),
    ),
    Change(
        name="a network of sines learns one picture from a stream of its pixels",
        starter="blank",
        edits=filled(data=PICTURE, model=PICTURE_MODEL, loss=SQUARED),
    ),
    Change(
        name="three quantiles that can't cross",
        starter="blank",
        edits=filled(
            data=TABLE,
            model=QUANTILES_MODEL,
            loss=SQUARED,
            step=QUANTILES_STEP,
            metrics='{"coverage": keras.metrics.Mean(), "mae": keras.metrics.Mean()}',
        ),
    ),
    Change(
        name="a body by SGD and a head by Adam",
        edits=(
            Edit(
                "model.py",
                "adapted: dict[str, np.ndarray]) -> keras.Model:",
                "adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:",
            ),
            Edit(
                "model.py",
                at.HIDDEN,
                "    body = keras.Model(images, x)\n"
                "    features = keras.Input(x.shape[1:])\n"
                '    x = layers.Dense(128, activation="relu")(features)\n',
            ),
            Edit(
                "model.py",
                "    return keras.Model(images, logits)\n",
                '    return {"body": body, "head": keras.Model(features, logits)}\n',
            ),
            Edit(
                "optimizer.py",
                "steps: int) -> keras.optimizers.Optimizer:",
                "steps: int) -> dict[str, keras.optimizers.Optimizer]:",
            ),
            Edit(
                "optimizer.py",
                "    return keras.optimizers.Adam(schedule)\n",
                "    slow = keras.optimizers.schedules.CosineDecay(0.05, decay_steps=steps)\n"
                "    body = keras.optimizers.SGD(slow, momentum=0.9, nesterov=True)\n"
                '    return {"body": body, "head": keras.optimizers.Adam(schedule)}\n',
            ),
            Edit(
                "steps.py",
                "predictions = run.model(images, training=True)",
                "predictions = predict(run, images, training=True)",
                "*",
            ),
            Edit(
                "steps.py",
                "predictions = run.model(images, training=False)",
                "predictions = predict(run, images, training=False)",
                "*",
            ),
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                '    loss = compute_loss(per_example, weights, run.models["body"], replica)\n'
                '    return {"body": loss, "head": loss}\n',
                "*",
            ),
            before(
                "steps.py",
                "# TODO(11)",
                "def predict(run: Run, images: tf.Tensor, training: bool) -> tf.Tensor:\n"
                '    """The logits, (batch, classes)."""\n'
                '    features = run.models["body"](images, training=training)\n'
                '    return run.models["head"](features, training=training)\n\n\n',
            ),
            Edit(
                "pictures.py",
                "    probabilities = np.asarray(keras.ops.softmax(predict_in_parts(run.model, images)))\n",
                '    features = predict_in_parts(run.models["body"], images)\n'
                '    logits = predict_in_parts(run.models["head"], features)\n'
                "    probabilities = np.asarray(keras.ops.softmax(logits))\n",
            ),
        ),
    ),
)
