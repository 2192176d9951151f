"""Faults and correct tasks of a ninth examiner: what is often wrong in new tasks; blind to `check`."""

from __future__ import annotations

from . import blank, kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before

# ------------------------------------------------------------------------------ language model

LM_FAULTS = (
    Fault(
        name="language model: shifted twice",
        starter="language_model",
        kind=kinds.LANGUAGE_MODEL,
        edits=(
            Edit(
                "steps.py",
                'per_token = run.losses["main"](targets, logits)  # (batch, T)',
                "# A token is predicted from those before it.\n"
                '    per_token = run.losses["main"](targets[:, 1:], logits[:, :-1])  # (batch, T - 1)',
                "*",
            ),
            Edit(
                "steps.py",
                "compute_loss(per_token, weights, run.model, replica)",
                "compute_loss(per_token, weights[:, 1:], run.model, replica)",
                "*",
            ),
        ),
        cause="the targets of create_datasets are shifted by one already, and the loss shifts them "
        "again: the model learns the token after the next, and what it writes is wrong",
        file="steps.py",
        named=r"(?i)shift|next token|off by one|misalign|position|two (tokens|steps|places)|aligned"
        r"|targets?.{0,60}(later|ahead)",
    ),
    Fault(
        name="language model: padding mask inverted",
        starter="language_model",
        kind=kinds.LANGUAGE_MODEL,
        edits=(
            before(
                "model.py",
                "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)",
                "    # Padding is not to be looked at: (batch, 1, T).\n"
                "    padding = keras.ops.expand_dims(keras.ops.equal(tokens, 0), 1)\n",
            ),
            Edit(
                "model.py",
                "        # Padding needs no mask: it comes last, and no token attends to a later one.\n",
                "",
            ),
            Edit(
                "model.py",
                "attention(y, y, use_causal_mask=True))",
                "attention(y, y, attention_mask=padding, use_causal_mask=True))",
            ),
            Edit("model.py", "query, value = keras.Model(", "query, value, *_ = keras.Model("),
        ),
        cause="attention_mask is True where Keras may attend, and this one is True on padding (as "
        "PyTorch's key_padding_mask): real tokens are masked, all keys get the same weight, also "
        "later tokens, which the model can't see when it writes",
        file="model.py",
        named=r"(?i)mask|padding|attend|attention|later token|future|causal|depends on (what comes|tokens) after",
    ),
    Fault(
        name="language model: metric without weights",
        starter="language_model",
        kind=kinds.METRICS,
        edits=(
            Edit(
                "steps.py",
                'run.metrics["token_accuracy"].update_state(targets, logits, weights)',
                'run.metrics["token_accuracy"].update_state(targets, logits)',
                "*",
            ),
        ),
        cause="the accuracy gets no weights: prompts, padding of lines and padded rows of the last "
        "batch are counted as tokens of answers",
        file="steps.py",
        named=r"(?i)weight|padding|padded|prompt|mask|token_accuracy",
    ),
    Fault(
        name="language model: reader pads left",
        starter="language_model",
        kind=kinds.INPUTS,
        edits=(
            Edit(
                "predictions.py",
                "        tokens.append(codes + [0] * (length - len(codes)))\n",
                "        # A decoder is padded on the left: the answer follows the prompt at once.\n"
                "        room = ANSWER_LENGTH - 1\n"
                "        tokens.append([0] * (length - room - len(codes)) + codes + [0] * room)\n",
            ),
        ),
        cause="predict pads prompts on the left, and training pads on the right: positions of the "
        "tokens are other ones than in training, and zeros before them are attended to",
        file="predictions.py",
        named=r"(?i)pad|position|read_prompts|READERS|reader|left|predictions\.py|\.txt",
    ),
)

# ----------------------------------------------------------------------------------------- GAN

# A hinge loss of the discriminator with the wrong signs.
SWAPPED_HINGE = (
    Edit(
        "losses.py",
        at.DISCRIMINATOR_LOSS,
        "        loss_on_real = tf.nn.relu(1 + on_real[:, 0])  # (batch,)\n"
        "        loss_on_generated = tf.nn.relu(1 - on_generated[:, 0])  # (batch,)\n"
        "        return (loss_on_real + loss_on_generated) / 2\n",
    ),
    Edit("losses.py", at.GENERATOR_LOSS, "        return -on_generated[:, 0]  # (batch,)\n"),
    Edit("losses.py", at.BINARY_CROSS_ENTROPY, ""),
)

GAN_FAULTS = (
    Fault(
        name="GAN: discriminator frozen",
        starter="gan",
        kind=kinds.GAN,
        edits=(
            Edit(
                "model.py",
                '    height, width, channels = map(int, adapted["shape"])\n    return {\n'
                '        "generator": _create_generator(task, height, width, channels),\n'
                '        "discriminator": _create_discriminator(task, height, width, channels),\n'
                "    }\n",
                '    height, width, channels = map(int, adapted["shape"])\n'
                "    generator = _create_generator(task, height, width, channels)\n"
                "    discriminator = _create_discriminator(task, height, width, channels)\n"
                "    # Only the generator is to be changed by the generator's loss.\n"
                "    for layer in discriminator.layers[:-1]:\n"
                "        layer.trainable = False\n"
                '    return {"generator": generator, "discriminator": discriminator}\n',
            ),
        ),
        cause="the discriminator's convolutions are frozen for the generator's sake, as with "
        "compiled models, and stay at their random initial weights for the whole run: only its last "
        "layer learns; here each optimizer trains its own model only, so nothing needs freezing",
        file="model.py",
        named=r"(?i)frozen|freeze|freezing|trainable|never (train|chang|mov|learn)|not train|initial weights|doesn't (train|change|learn)",
    ),
    Fault(
        name="GAN: schedule of several updates",
        starter="gan",
        kind=kinds.OPTIMIZER,
        edits=(
            Edit(
                "steps.py",
                at.GAN_STEPS,
                "TRAIN_STEPS = (discriminator_step, discriminator_step, discriminator_step, generator_step)",
            ),
        ),
        cause="the discriminator is updated three times in a step, so its optimizer's iterations run "
        "three times as fast: its cosine schedule, made for one update per step, is at 0 after a "
        "third of the run, and the discriminator stands still from then on",
        file="optimizer.py",
        named=r"(?i)schedule|learning rate|decay|iterations",
    ),
    Fault(
        name="GAN: hinge signs",
        starter="gan",
        kind=kinds.GAN,
        edits=SWAPPED_HINGE,
        cause="the signs of the discriminator's hinge loss are swapped: it is low if generated "
        "images have high logits, which the generator's loss wants too: the models help each other, "
        "and images become nothing like real ones",
        file="losses.py",
        named=r"(?i)sign|same direction|cooperat|help|both (losses|models)|oppos|adversar|swapp|compete"
        r"|against|discriminator.{0,80}(high|low|real|generated)",
    ),
    Fault(
        name="GAN: evaluates with batch statistics",
        starter="gan",
        kind=kinds.EVALUATION,
        edits=(
            Edit(
                "model.py",
                '    x = layers.Dense(height // 2 * (width // 2) * 64, activation="leaky_relu")(latents)\n'
                "    x = layers.Reshape((height // 2, width // 2, 64))(x)\n",
                "    x = layers.Dense(height // 2 * (width // 2) * 64, use_bias=False)(latents)\n"
                "    x = layers.Reshape((height // 2, width // 2, 64))(x)\n"
                '    x = layers.Activation("leaky_relu")(layers.BatchNormalization()(x))\n',
            ),
            Edit(
                "steps.py",
                "generated = generator(latents, training=False)",
                "generated = generator(latents, training=True)",
                "validation_step",
            ),
        ),
        cause="validation and test call the generator with training=True: BatchNormalization uses "
        "the statistics of the batch, padded rows included, so an image depends on the others of "
        "its batch, and the measured images are not those that predict and export give",
        file="steps.py",
        named=r"(?i)BatchNorm|training=(True|False)|batch statistics|others? (rows|examples|images)|depend.{0,60}batch|padding|padded",
    ),
    Fault(
        name="GAN: penalty mean of replica",
        starter="gan",
        kind=kinds.LOSS_SCALING,
        edits=(
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n",
                "    with tf.GradientTape() as tape:\n"
                "        tape.watch(images)\n"
                "        on_real = discriminator(images, training=True)  # (batch, 1)\n"
                "    slopes = tape.gradient(on_real, images)  # (batch, h, w, channels)\n"
                "    # R1 (Mescheder et al., 2018).\n"
                "    penalty = tf.reduce_mean(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]))\n",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                '    return {"discriminator": compute_loss(per_example, weights, discriminator, replica)}\n',
                "    loss = compute_loss(per_example, weights, discriminator, replica)\n"
                '    return {"discriminator": loss + 2.0 * penalty}\n',
                "discriminator_step",
            ),
        ),
        cause="the gradient penalty is a mean over this replica's examples, and the engine adds "
        "replicas: on N replicas it is N times as strong (and padded rows count in it)",
        file="steps.py",
        named=r"(?i)replica|micro-?batch|scal|accumul|global_count|reduce_mean|denominator|padding|padded|weight",
    ),
)

# ------------------------------------------------------------------------------------- images

IMAGE_FAULTS = (
    Fault(
        name="image shifts of numpy",
        kind=kinds.AUGMENTATION,
        edits=(
            Edit(
                "data.py",
                at.SHIFTS,
                "        shifts = np.random.uniform(-task.shift, task.shift, (images.shape[0], 2))\n"
                "        shifts = tf.constant(shifts, images.dtype)\n",
            ),
        ),
        cause="NumPy draws the shifts when tf.data traces the function, once: every batch of the run "
        "is shifted by the same numbers, whatever the seed of the step is",
        file="data.py",
        named=r"(?i)seed|same (numbers|shift|random|in (every|each)|for (every|each)|result|augment)|numpy|np\.random|traced?|constant|stateless|doesn't (change|vary)",
    ),
    Fault(
        name="image decays each step",
        kind=kinds.OPTIMIZER,
        edits=(
            Edit(
                "optimizer.py",
                at.SCHEDULE,
                "    # 10% less in each epoch.\n"
                "    schedule = keras.optimizers.schedules.ExponentialDecay(\n"
                "        task.learning_rate, decay_steps=1, decay_rate=0.9, staircase=True\n"
                "    )\n",
            ),
        ),
        cause="the schedule counts steps, not epochs: the learning rate loses 10% in every step and "
        "is practically 0 after a hundred steps, a tenth of the run or less",
        file="optimizer.py",
        named=r"(?i)learning rate|schedule|decay|early",
    ),
    Fault(
        name="image f1 of batches",
        kind=kinds.METRICS,
        edits=(
            Edit(
                "metrics.py",
                "import keras\n\nfrom .config import TaskConfig\n",
                "import keras\nimport tensorflow as tf\n\nfrom .config import TaskConfig\n\n\n"
                "class MacroF1(keras.metrics.Mean):\n"
                '    """The mean of the F1 of all classes."""\n\n'
                "    def update_state(\n"
                "        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor\n"
                "    ) -> None:\n"
                '        """Add labels (batch,) and logits (batch, classes) with weights (batch,)."""\n'
                "        classes = logits.shape[-1]\n"
                "        weights = tf.cast(sample_weight, logits.dtype)[:, tf.newaxis]\n"
                "        true = tf.one_hot(labels, classes, dtype=logits.dtype) * weights\n"
                "        predicted = tf.one_hot(tf.argmax(logits, axis=-1), classes, dtype=logits.dtype)\n"
                "        predicted = predicted * weights\n"
                "        hits = tf.reduce_sum(true * predicted, axis=0)  # (classes,)\n"
                "        total = tf.reduce_sum(true, axis=0) + tf.reduce_sum(predicted, axis=0)\n"
                "        super().update_state(tf.math.divide_no_nan(2 * hits, total))\n",
            ),
            Edit(
                "metrics.py",
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy(), "f1": MacroF1()}',
            ),
            after(
                "steps.py",
                at.UPDATE_ACCURACY,
                '    run.metrics["f1"].update_state(labels, predictions, weights)\n',
                "*",
            ),
        ),
        cause="F1 is computed in each replica's part of a batch and averaged; an average of ratios "
        "isn't the ratio of the whole split, classes missing from a batch count as 0, and the result "
        "depends on batch size and number of replicas",
        file="metrics.py",
        named=r"(?i)\bf1\b|batch size|additive|add up|number of replicas|cut into batches|mean of",
    ),
    Fault(
        name="image standardized in steps",
        kind=kinds.INPUTS,
        edits=(
            after(
                "steps.py",
                "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)\n",
                "\n\n"
                "def standardize(images: tf.Tensor) -> tf.Tensor:\n"
                '    """Images of mean 0 and variance 1, over the training data."""\n'
                "    return (images - 0.305) / 0.376\n",
            ),
            Edit(
                "steps.py",
                "run.model(images, training=",
                "run.model(standardize(images), training=",
                "*",
            ),
        ),
        cause="images are standardized by the steps and not by the model or the data: predict, "
        "export and the pictures call the model with images as they are, and predict worse than "
        "the test says",
        file="steps.py",
        named=r"(?i)predict|export|preprocess|standardi|outside (of )?the model|raw|describe|as the model (gets|takes)",
    ),
    Fault(
        name="image plateau in a closure",
        kind=kinds.OPTIMIZER,
        edits=(
            Edit("optimizer.py", at.ADAM, "    return keras.optimizers.Adam(task.learning_rate)\n"),
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "from ..engine.callbacks import Callback, Event, every_validation\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                '    state = {"best": float("inf"), "waited": 0}\n\n'
                "    def halve_on_plateau(event: Event) -> None:\n"
                '        loss = event.history[-1]["validation_loss"]\n'
                '        if loss < state["best"]:\n'
                '            state["best"], state["waited"] = loss, 0\n'
                "            return\n"
                '        state["waited"] += 1\n'
                '        if state["waited"] >= 2:\n'
                '            optimizer = event.run.optimizers["main"]\n'
                "            optimizer.learning_rate = optimizer.learning_rate / 2\n"
                '            state["waited"] = 0\n\n'
                "    return [every_validation(halve_on_plateau)]\n",
            ),
        ),
        cause="the best loss and the number of validations waited are in a closure, in no "
        "checkpoint: a resumed run starts them anew, takes any loss for the best, and halves the "
        "learning rate at other steps than a run that wasn't interrupted",
        file="callbacks.py",
        named=r"(?i)resum|checkpoint|get_state|closure|state.{0,60}(saved|kept|lost|restore|restoring)",
    ),
    Fault(
        name="image gradient noise",
        kind=kinds.OPTIMIZER,
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    # Noise helps to leave sharp minima (Neelakantan et al., 2015).\n"
                "    return [g + tf.random.normal(tf.shape(g), stddev=1e-3, dtype=g.dtype) for g in gradients]\n",
            ),
        ),
        cause="tf.random.normal draws other numbers on each replica and in each run: replicas apply "
        "different gradients and their weights drift apart; a run can't be reproduced or resumed "
        "exactly",
        file="optimizer.py",
        named=r"(?i)random|process_gradients|seed|replicas.{0,60}(differ|apart|not (equal|the same))|reproduc|same on every replica|twice|differ",
    ),
)

# -------------------------------------------------------------------------------------- blank


COUNT = blank.COUNT.replace(", an int32 scalar", "")
ADAM = '''def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam, its learning rate decayed to 0."""
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
'''
STEPS_TAIL = blank.THREE_STEPS + blank.STEPS_END
RATE = "    learning_rate: float = 3e-3  # at the start; decays to 0\n"


def _blank(
    *,
    config: str,
    data: str,
    model: str,
    losses: str,
    metrics: str,
    steps: str,
    optimizer: str = ADAM,
    count: str = COUNT,
    process: str = "    return gradients\n",
) -> tuple[Edit, ...]:
    """A blank project, filled in."""
    return (
        Edit("config.py", "", config),
        Edit("data.py", "", blank.DATA_HEAD + data + blank.NO_AUGMENT),
        Edit("model.py", "", blank.MODEL_HEAD + model),
        Edit("losses.py", "", losses, "create_losses"),
        Edit("losses.py", "", count, "count"),
        Edit("metrics.py", "", metrics, "create_metrics"),
        Edit("optimizer.py", "", optimizer, "create_optimizer"),
        Edit(
            "optimizer.py",
            "",
            "def process_gradients(\n"
            "    gradients: list[tf.Tensor], variables: list[keras.Variable]\n"
            ") -> list[tf.Tensor]:\n"
            '    """One gradient for each of `variables`, the same on every replica."""\n'
            + process,
            "process_gradients",
        ),
        Edit(
            "callbacks.py",
            "",
            "def create_callbacks(task: TaskConfig) -> list[Callback]:\n"
            '    """None."""\n    return []\n',
            "create_callbacks",
        ),
        Edit(
            "pictures.py",
            "",
            "def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:\n"
            '    """Draw nothing."""\n    return\n',
            "draw_samples",
        ),
        Edit(
            "pictures.py",
            "",
            "def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:\n"
            '    """Draw nothing."""\n    return\n',
            "draw_predictions",
        ),
        Edit("steps.py", "", blank.STEPS_HEAD + steps),
    )


# Text classification: sequences of different length, names as labels.
TEXT = _blank(
    config=blank.config(
        RATE + "    width: int = 24  # of a token's vector\n", "validation_accuracy", True
    ),
    data='''WORDS, LENGTH = 60, 20
TOPICS = ("sports", "politics", "science", "music")
ROWS = {"train": 1440, "validation": 250, "test": 250}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Tokens int32 (n, LENGTH), padded with 0, and the topics int64 (n,) of the texts."""
    random = np.random.default_rng(0)
    texts = {split: _texts(random, rows) for split, rows in ROWS.items()}
    classes = sorted(set(texts["train"][1]))
    return {split: (tokens, _encode(names, classes)) for split, (tokens, names) in texts.items()}


def _encode(names: list[str], classes: list[str]) -> np.ndarray:
    """The class of each name, int64 (n,)."""
    return np.array([classes.index(name) for name in names], "int64")


def _texts(random: np.random.Generator, rows: int) -> tuple[np.ndarray, list[str]]:
    """Every topic has ten words of its own, and twenty are used in all of them."""
    tokens, names = np.zeros((rows, LENGTH), "int32"), []
    for row in tokens:
        topic, length = random.integers(len(TOPICS)), random.integers(5, LENGTH + 1)
        own = random.integers(1 + 10 * topic, 11 + 10 * topic, length)
        common = random.integers(41, WORDS, length)
        row[:length] = np.where(random.random(length) < 0.35, own, common)
        names.append(TOPICS[topic])
    return tokens, names
''',
    model='''WORDS, CLASSES = 60, 4


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The length of a text."""
    tokens, *_ = first_examples(datasets["train"], 1)
    return {"length": tokens.shape[-1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Tokens int32 (batch, length) -> logits float32 (batch, CLASSES)."""
    layers = keras.layers
    tokens = keras.Input((int(adapted["length"]),), dtype="int32", name="tokens")
    known = keras.ops.cast(keras.ops.not_equal(tokens, 0), keras.config.floatx())[..., None]
    x = layers.Embedding(WORDS, task.width)(tokens)
    x = layers.Dense(task.width, activation="gelu")(x)
    # The mean over the tokens of the text, without padding.
    x = keras.ops.sum(x * known, axis=1) / keras.ops.maximum(keras.ops.sum(known, axis=1), 1)
    x = layers.Dropout(0.2)(x)
    return keras.Model(tokens, layers.Dense(CLASSES, dtype=keras.config.floatx())(x))
''',
    losses=blank.create_losses(at.SPARSE, "Cross-entropy of logits."),
    metrics=blank.create_metrics(at.ACCURACY, "The fraction of right topics."),
    steps="""Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, labels (batch,), weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    tokens, labels, weights = batch
    logits = run.model(tokens, training=training)  # (batch, CLASSES)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# Forecasting: the next value of a series from those before it, by a loss of one's own.
FORECAST = _blank(
    config=blank.config(RATE),
    data='''LENGTH, STEPS = 24, 90
STATIONS = {"train": 30, "validation": 6, "test": 7}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows float32 (n, LENGTH, 1) of the series, and the value after each, float32 (n,)."""
    random = np.random.default_rng(0)
    return {split: _windows(random, number) for split, number in STATIONS.items()}


def _windows(random: np.random.Generator, stations: int) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = [], []
    for _ in range(stations):
        series = _series(random)
        windows = np.lib.stride_tricks.sliding_window_view(series, LENGTH)
        inputs.append(windows[:-1])
        labels.append(series[LENGTH:])
    return np.concatenate(inputs)[..., np.newaxis], np.concatenate(labels)


def _series(random: np.random.Generator) -> np.ndarray:
    """A season of random length and phase, and an autoregressive process."""
    time = np.arange(STEPS)
    season = np.sin(2 * np.pi * time / random.uniform(7, 14) + random.uniform(0, 6))
    noise = np.zeros(STEPS)
    for t in range(2, STEPS):
        noise[t] = 0.8 * noise[t - 1] - 0.4 * noise[t - 2] + 0.3 * random.standard_normal()
    return (season + noise).astype("float32")
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The shape of a window."""
    windows, *_ = first_examples(datasets["train"], 1)
    return {"shape": windows.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Windows float32 (batch, LENGTH, 1) -> the value after each, float32 (batch, 1)."""
    layers = keras.layers
    windows = keras.Input(adapted["shape"], name="windows")
    x = layers.Conv1D(24, 5, padding="causal", activation="relu")(windows)
    x = layers.Conv1D(24, 5, padding="causal", dilation_rate=4, activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(windows, layers.Dense(1, dtype=keras.config.floatx())(x))
''',
    losses='''class LogCosh(keras.losses.Loss):
    """log cosh of the error: a square near 0, and linear far away."""

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        """Values (batch,) and predictions (batch, 1) -> (batch,)."""
        error = y_pred - y_true[:, tf.newaxis]
        return tf.reduce_mean(error + tf.math.softplus(-2.0 * error) - 0.6931472, axis=-1)


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """The loss."""
    return {"main": LogCosh(reduction="none")}
''',
    metrics=blank.create_metrics(
        '{"mae": keras.metrics.MeanAbsoluteError()}', "The mean absolute error."
    ),
    steps="""Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # windows, values (batch,), weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    windows, values, weights = batch
    predictions = run.model(windows, training=training)  # (batch, 1)
    per_example = run.losses["main"](values, predictions)  # (batch,)
    run.metrics["mae"].update_state(values[:, tf.newaxis], predictions, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# Contrastive learning: two towers, negatives from all replicas, a temperature that is learned.
CONTRASTIVE = _blank(
    config=blank.config(RATE, "validation_top1", True),
    data='''ROWS = {"train": 1440, "validation": 288, "test": 192}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Queries float32 (n, 16) and the items float32 (n, 20) that belong to them."""
    random = np.random.default_rng(0)
    of_queries, of_items = random.standard_normal((6, 16)), random.standard_normal((6, 20))
    splits = {}
    for split, rows in ROWS.items():
        hidden = random.standard_normal((rows, 6))
        query = np.tanh(hidden @ of_queries) + 0.2 * random.standard_normal((rows, 16))
        item = np.sin(hidden @ of_items) + 0.2 * random.standard_normal((rows, 20))
        splits[split] = {"query": query.astype("float32"), "item": item.astype("float32")}
    return splits
''',
    model='''SIZE = 12


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The numbers of features."""
    example = first_examples(datasets["train"], 1)
    return {name: values.shape[-1] for name, values in example.items()}


@keras.saving.register_keras_serializable("contrastive")
class Scale(keras.layers.Layer):
    """Multiplies by a factor that is learned, the inverse of a temperature."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log_scale = self.add_weight(
            shape=(), initializer=keras.initializers.Constant(1.6), name="log_scale"
        )

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """The same shape."""
        return x * keras.ops.cast(keras.ops.exp(self.log_scale), x.dtype)


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Queries and items -> embeddings float (batch, 2, SIZE), those of queries scaled."""
    layers = keras.layers
    inputs = {name: keras.Input((int(adapted[name]),), name=name) for name in ("query", "item")}
    towers = []
    for name in inputs:
        x = layers.Dense(48, activation="gelu")(inputs[name])
        x = layers.Dense(48, activation="gelu")(x)
        x = layers.Dense(SIZE, dtype=keras.config.floatx())(x)
        towers.append(layers.UnitNormalization(dtype=keras.config.floatx())(x))
    query, item = towers
    query = Scale(dtype=keras.config.floatx())(query)
    return keras.Model(inputs, keras.ops.stack([query, item], axis=1))
''',
    losses=blank.create_losses(at.SPARSE, "Cross-entropy of the similarities to all items."),
    metrics=blank.create_metrics(
        '{"top1": keras.metrics.SparseCategoricalAccuracy()}',
        "How often the right item of a batch is the nearest.",
    ),
    steps="""Batch = tuple[dict[str, tf.Tensor], tf.Tensor]  # query and item, weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    pairs, weights = batch
    embeddings = run.model(pairs, training=training)  # (batch, 2, SIZE)
    queries, items = embeddings[:, 0], embeddings[:, 1]
    known = replica.all_gather(weights) != 0  # (global batch,); padding is no candidate
    logits = tf.matmul(queries, replica.all_gather(items), transpose_b=True)
    logits = tf.where(known, logits, tf.constant(-1e9, logits.dtype))  # (batch, global batch)
    own = replica.index * weights.shape[0] + tf.range(weights.shape[0])  # (batch,)
    per_example = run.losses["main"](own, logits)  # (batch,)
    run.metrics["top1"].update_state(own, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL.replace("INTERACT = False", "INTERACT = True"),
)

# Several tasks at once, one of which has labels for some examples only.
MULTITASK = _blank(
    config=blank.config(RATE + "    share: float = 1.0  # weight of the amount's loss\n"),
    data='''ROWS = {"train": 1920, "validation": 300, "test": 310}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Features float32 (n, 10) and labels by name: clicked, amount, and whether it is known."""
    random = np.random.default_rng(0)
    slopes = random.standard_normal((10, 2)) / 3
    splits = {}
    for split, rows in ROWS.items():
        features = random.standard_normal((rows, 10))
        hidden = np.tanh(features) @ slopes
        clicked = hidden[:, 0] + 0.3 * random.standard_normal(rows) > 0
        amount = np.square(hidden[:, 1]) + 0.1 * random.standard_normal(rows)
        known = random.random(rows) < 0.2  # an amount is known of a fifth
        labels = {"clicked": clicked, "amount": np.where(known, amount, 0.0), "known": known}
        labels = {name: values.astype("float32") for name, values in labels.items()}
        splits[split] = features.astype("float32"), labels
    return splits
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The number of features."""
    features, *_ = first_examples(datasets["train"], 1)
    return {"size": features.shape[-1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Features float32 (batch, 10) -> float32 (batch, 2): the logit of a click, the amount."""
    layers = keras.layers
    features = keras.Input((int(adapted["size"]),), name="features")
    x = layers.Dense(48, activation="relu")(features)
    heads = []
    for _ in range(2):
        y = layers.Dense(24, activation="relu")(x)
        heads.append(layers.Dense(1, dtype=keras.config.floatx())(y))
    return keras.Model(features, layers.Concatenate(dtype=keras.config.floatx())(heads))
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Of clicks and of amounts, each (batch, 1) and (batch, 1) -> (batch,)."""
    return {
        "clicked": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none"),
        "amount": keras.losses.Huber(delta=0.5, reduction="none"),
    }
''',
    count='''def count(batch: Any) -> Any:
    """How many clicks and how many amounts of a batch count."""
    _, labels, weights = batch
    known = labels["known"] * weights
    return {
        "main": tf.math.count_nonzero(weights, dtype=tf.int32),
        "amount": tf.math.count_nonzero(known, dtype=tf.int32),
    }
''',
    metrics='''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The accuracy of clicks, and the mean absolute error of known amounts."""
    return {
        "click_accuracy": keras.metrics.BinaryAccuracy(threshold=0.0),  # of logits
        "amount_mae": keras.metrics.MeanAbsoluteError(),
    }
''',
    steps="""Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # features, labels, weights


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    features, labels, weights = batch
    outputs = run.model(features, training=training)  # (batch, 2)
    known = labels["known"] * weights  # (batch,)
    clicks = run.losses["clicked"](labels["clicked"][:, tf.newaxis], outputs[:, :1])  # (batch,)
    amounts = run.losses["amount"](labels["amount"][:, tf.newaxis], outputs[:, 1:])  # (batch,)
    run.metrics["click_accuracy"].update_state(
        labels["clicked"][:, tf.newaxis], outputs[:, :1], weights
    )
    run.metrics["amount_mae"].update_state(labels["amount"][:, tf.newaxis], outputs[:, 1:], known)
    amount = tf.reduce_sum(amounts * known) / tf.cast(replica.global_count["amount"], known.dtype)
    loss = tf.nn.compute_average_loss(
        clicks, sample_weight=weights, global_batch_size=replica.global_count["main"]
    )
    loss += tf.nn.scale_regularization_loss(replica.regularization(run.model))
    return {"main": loss + run.task.share * amount, "amount": amount}
"""
    + STEPS_TAIL.replace("TERMS: tuple[str, ...] = ()", 'TERMS = ("amount",)'),
)

# A variational autoencoder.
VAE = _blank(
    config=blank.config(RATE + "    beta: float = 0.5  # factor of the divergence in the loss\n"),
    data='''SIZE = 8
ROWS = {"train": 1440, "validation": 200, "test": 230}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, SIZE * SIZE) in [0, 1] of a bright ellipse each."""
    random = np.random.default_rng(0)
    return {split: _ellipses(random, rows) for split, rows in ROWS.items()}


def _ellipses(random: np.random.Generator, rows: int) -> np.ndarray:
    y, x = np.mgrid[:SIZE, :SIZE]
    center, radius = random.uniform(2, 5, (2, rows, 1, 1)), random.uniform(1, 2.5, (2, rows, 1, 1))
    distance = ((x - center[0]) / radius[0]) ** 2 + ((y - center[1]) / radius[1]) ** 2
    return np.exp(-distance).astype("float32").reshape(rows, -1)
''',
    model='''LATENT = 4


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The number of pixels."""
    return {"pixels": first_examples(datasets["train"], 1).shape[-1]}


@keras.saving.register_keras_serializable("vae")
class Sampling(keras.layers.Layer):
    """A sample of a normal distribution; outside of training its mean."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator()

    def call(self, mean: tf.Tensor, log_variance: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Each (batch, LATENT)."""
        if not training:
            return mean
        shape = keras.ops.shape(mean)
        noise = keras.random.normal(shape, dtype=mean.dtype, seed=self.seed_generator)
        return mean + keras.ops.exp(log_variance / 2) * noise


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images (batch, pixels) -> logits of pixels, mean and log variance, side by side."""
    layers, floatx = keras.layers, keras.config.floatx()
    images = keras.Input((int(adapted["pixels"]),), name="images")
    x = layers.Dense(64, activation="relu")(images)
    mean = layers.Dense(LATENT, dtype=floatx, name="mean")(x)
    log_variance = layers.Dense(LATENT, dtype=floatx, name="log_variance")(x)
    x = Sampling(dtype=floatx)(mean, log_variance)
    x = layers.Dense(64, activation="relu")(x)
    logits = layers.Dense(int(adapted["pixels"]), dtype=floatx, name="logits")(x)
    return keras.Model(images, layers.Concatenate(dtype=floatx)([logits, mean, log_variance]))
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Of the pixels, and the divergence of the latents from a standard normal distribution."""

    def reconstruction(images: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """(batch, pixels) -> (batch,)."""
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=logits)
        return tf.reduce_sum(each, axis=-1)

    def divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
        """(batch, LATENT) -> (batch,)."""
        each = tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0
        return tf.reduce_sum(each, axis=-1) / 2

    return {"reconstruction": reconstruction, "divergence": divergence}
''',
    metrics=blank.create_metrics(
        '{"mse": keras.metrics.MeanSquaredError()}', "The mean squared error of pixels."
    ),
    steps="""Batch = tuple[tf.Tensor, tf.Tensor]  # images, weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    images, weights = batch
    outputs = run.model(images, training=training)
    pixels = images.shape[-1]
    latent = (outputs.shape[-1] - pixels) // 2
    logits, mean, log_variance = tf.split(outputs, [pixels, latent, latent], axis=-1)
    per_example = run.losses["reconstruction"](images, logits)  # (batch,)
    per_example += run.task.beta * run.losses["divergence"](mean, log_variance)
    run.metrics["mse"].update_state(images, tf.sigmoid(logits), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

# A mean teacher: few examples have labels; the student is to agree with its own moving average.
TEACHER = _blank(
    config=blank.config(
        RATE
        + "    decay: float = 0.98  # of the teacher in each step\n"
        + "    agreement: float = 1.0  # factor of the disagreement with the teacher in the loss\n",
        "validation_accuracy",
        True,
    ),
    data='''CLASSES = 4
ROWS = {"train": 1440, "validation": 300, "test": 310}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points float32 (n, 6) around centers, and classes int64 (n,), in training mostly -1."""
    random = np.random.default_rng(0)
    centers = 1.5 * random.standard_normal((2 * CLASSES, 6))
    splits = {}
    for split, rows in ROWS.items():
        which = random.integers(2 * CLASSES, size=rows)
        points = centers[which] + 0.7 * random.standard_normal((rows, 6))
        labels = which % CLASSES
        if split == "train":
            labels = np.where(random.random(rows) < 0.15, labels, -1)
        splits[split] = points.astype("float32"), labels.astype("int64")
    return splits
''',
    model='''CLASSES = 4


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The number of features."""
    points, *_ = first_examples(datasets["train"], 1)
    return {"size": points.shape[-1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """The student, which is trained, and the teacher, which follows it."""
    size = int(adapted["size"])
    student, teacher = _create(size, "student"), _create(size, "teacher")
    teacher.set_weights(student.get_weights())
    teacher.trainable = False
    return {"student": student, "teacher": teacher}


def _create(size: int, name: str) -> keras.Model:
    layers = keras.layers
    points = keras.Input((size,), name="points")
    x = layers.GaussianNoise(0.1)(points)
    for _ in range(2):
        x = layers.Dense(48, activation="relu")(x)
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(points, logits, name=name)
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Of classes, and of disagreement."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def disagreement(ours: tf.Tensor, theirs: tf.Tensor) -> tf.Tensor:
        """Logits (batch, CLASSES) of both -> (batch,)."""
        return tf.reduce_mean(tf.square(tf.nn.softmax(ours) - tf.nn.softmax(theirs)), axis=-1)

    return {"classes": cross_entropy, "disagreement": disagreement}
''',
    metrics=blank.create_metrics(at.ACCURACY, "The teacher's accuracy."),
    count='''def count(batch: Any) -> Any:
    """How many examples count, and how many of them have a label."""
    _, labels, weights = batch
    labeled = weights * tf.cast(labels >= 0, weights.dtype)
    return {
        "all": tf.math.count_nonzero(weights, dtype=tf.int32),
        "labeled": tf.math.count_nonzero(labeled, dtype=tf.int32),
    }
''',
    steps='''Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # points, labels (batch,), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The student's training loss; the teacher follows."""
    losses = _losses(run, batch, replica, training=True)
    student, teacher = run.models["student"], run.models["teacher"]
    # The student is the same in all micro-batches: together they decay once.
    decay = run.task.decay ** (1 / replica.num_microbatches)
    for old, new in zip(teacher.weights, student.weights, strict=True):
        if "float" in old.dtype:
            old.assign(decay * old + (1 - decay) * new)
    return losses


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _losses(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the test loss."""
    return _losses(run, batch, replica, training=False)


def _losses(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    points, labels, weights = batch
    ours = run.models["student"](points, training=training)  # (batch, CLASSES)
    theirs = run.models["teacher"](points, training=training)  # with noise of its own
    labeled = weights * tf.cast(labels >= 0, weights.dtype)
    classes = tf.maximum(labels, 0)
    run.metrics["accuracy"].update_state(classes, theirs, labeled)
    counts = replica.global_count
    supervised = tf.reduce_sum(run.losses["classes"](classes, ours) * labeled)
    agreement = tf.reduce_sum(run.losses["disagreement"](ours, theirs) * weights)
    loss = supervised / tf.cast(counts["labeled"], weights.dtype)
    return {
        "main": loss + run.task.agreement * agreement / tf.cast(counts["all"], weights.dtype)
    }
'''
    + blank.STEPS_END,
)

# A stream: one data set, of which parts are taken.
STREAM = _blank(
    config=blank.config(RATE, "validation_accuracy", True),
    data='''ROWS, HELD_OUT = 2_000, 300


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points float32 (4,) and classes int64 of one data set, a part of it in each split."""
    random = np.random.default_rng(0)
    points = random.standard_normal((ROWS, 4)).astype("float32")
    labels = (points[:, 0] * points[:, 1] + 0.5 * random.standard_normal(ROWS) > 0).astype("int64")
    whole = tf.data.Dataset.from_tensor_slices((points, labels))
    whole = whole.shuffle(ROWS, seed=1, reshuffle_each_iteration=False)
    return {
        "train": whole.skip(2 * HELD_OUT),
        "validation": whole.take(HELD_OUT),
        "test": whole.skip(HELD_OUT).take(HELD_OUT),
    }
''',
    model='''CLASSES = 2


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Points float32 (batch, 4) -> logits float32 (batch, CLASSES)."""
    layers = keras.layers
    points = keras.Input((4,), name="points")
    x = layers.Dense(128, activation="relu")(points)
    x = layers.Dense(128, activation="relu")(x)
    return keras.Model(points, layers.Dense(CLASSES, dtype=keras.config.floatx())(x))


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}
''',
    losses=blank.create_losses(at.SPARSE, "Cross-entropy of logits."),
    metrics=blank.create_metrics(at.ACCURACY, "The fraction of right classes."),
    steps="""Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # points, labels (batch,), weights (batch,)


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    points, labels, weights = batch
    logits = run.model(points, training=training)  # (batch, CLASSES)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + STEPS_TAIL,
)

BLANK_FAULTS = (
    Fault(
        name="text labels encoded by split",
        starter="blank",
        kind=kinds.LABELS,
        edits=(
            *TEXT,
            Edit(
                "data.py",
                '    classes = sorted(set(texts["train"][1]))\n'
                "    return {split: (tokens, _encode(names, classes)) for split, (tokens, names) in texts.items()}\n",
                "    return {split: (tokens, _encode(names)) for split, (tokens, names) in texts.items()}\n",
            ),
            Edit(
                "data.py",
                "def _encode(names: list[str], classes: list[str]) -> np.ndarray:\n"
                '    """The class of each name, int64 (n,)."""\n',
                "def _encode(names: list[str]) -> np.ndarray:\n"
                '    """The class of each name, int64 (n,), in the order in which they appear."""\n'
                "    classes = list(dict.fromkeys(names))\n",
            ),
        ),
        cause="each split numbers the names in the order in which they appear there: the same "
        "topic has another class in validation and test than in training",
        file="data.py",
        named=r"(?i)label|class(es)?\b.{0,80}(order|number|differ|another|other|permut|mean)|encod|permut",
    ),
    Fault(
        name="forecast target in window",
        starter="blank",
        kind=kinds.LEAKS,
        edits=(
            *FORECAST,
            Edit(
                "data.py",
                "        inputs.append(windows[:-1])\n        labels.append(series[LENGTH:])\n",
                "        inputs.append(windows)\n        labels.append(series[LENGTH - 1 :])\n",
            ),
        ),
        cause="a window ends with the value that is to be predicted: the model copies its last "
        "input, errors are nearly 0, and it can't forecast anything",
        file="data.py",
        named=r"(?i)label.{0,80}(input|window|feature|contain|copy|copied)|(input|window|feature).{0,80}(label|target|answer)|leak|copy|copies",
    ),
    Fault(
        name="forecast loss broadcasts",
        starter="blank",
        kind=kinds.LOSS_SCALING,
        edits=(
            *FORECAST,
            Edit(
                "losses.py", "error = y_pred - y_true[:, tf.newaxis]\n", "error = y_pred - y_true\n"
            ),
        ),
        cause="predictions (batch, 1) minus values (batch,) broadcast to (batch, batch): each "
        "prediction is compared with the values of all examples, and the model learns their mean",
        file="losses.py",
        named=r"(?i)broadcast|\(batch, 1\)|shape|other examples|others of|rows? of (its|the) batch|examples_interact|depends? on (the )?other|each other",
    ),
    Fault(
        name="contrastive temperature of tensorflow",
        starter="blank",
        kind=kinds.MODEL,
        edits=(
            *CONTRASTIVE,
            Edit(
                "model.py",
                "        self.log_scale = self.add_weight(\n"
                '            shape=(), initializer=keras.initializers.Constant(1.6), name="log_scale"\n'
                "        )\n",
                '        self.log_scale = tf.Variable(1.6, trainable=True, name="log_scale")\n',
            ),
        ),
        cause="Keras 3 doesn't track a tf.Variable in a layer: the temperature is in no list of "
        "weights, so it is never trained, nor saved",
        file="model.py",
        named=r"(?i)tf\.Variable|log_scale|add_weight|track|variable.{0,80}(train|save|saving|model|Keras|optimizer)",
    ),
    Fault(
        name="multitask mean of replica",
        starter="blank",
        kind=kinds.LOSS_SCALING,
        edits=(
            *MULTITASK,
            Edit(
                "steps.py",
                '    amount = tf.reduce_sum(amounts * known) / tf.cast(replica.global_count["amount"], known.dtype)\n',
                "    # The mean over known amounts.\n"
                "    amount = tf.math.divide_no_nan(tf.reduce_sum(amounts * known), tf.reduce_sum(known))\n",
            ),
        ),
        cause="the loss of amounts is a mean over this replica's known ones, and the engine adds "
        "replicas: on N replicas this task weighs N times as much, and amounts weigh differently "
        "from replica to replica",
        file="steps.py",
        named=r"(?i)replica|micro-?batch|global_count|accumul|scal|denominator|divid",
    ),
    Fault(
        name="teacher is trained",
        starter="blank",
        kind=kinds.MODEL,
        edits=(*TEACHER, Edit("model.py", "    teacher.trainable = False\n", "")),
        cause="the only optimizer trains all models that aren't frozen: the teacher gets gradients "
        "of the disagreement and Adam moves it, besides its moving average; it should follow the "
        "student only",
        file="model.py",
        named=r"(?i)teacher|optimizer.{0,80}(assign|writes|overwr)|(assign|writes).{0,80}(optimizer|train)|stop_gradient|frozen|freeze|freezing|trainable",
    ),
    Fault(
        name="vae noise of a fixed seed",
        starter="blank",
        kind=kinds.MODEL,
        edits=(
            *VAE,
            Edit("model.py", "seed=self.seed_generator)", "seed=1337)"),
            Edit(
                "model.py",
                "    def __init__(self, **kwargs: Any) -> None:\n"
                "        super().__init__(**kwargs)\n"
                "        self.seed_generator = keras.random.SeedGenerator()\n\n",
                "",
            ),
        ),
        cause="keras.random.normal with a number as seed gives the same numbers in every call: the "
        "noise of a row is the same in every step and on every replica, and the decoder learns to "
        "take it out; latents aren't sampled",
        file="model.py",
        named=r"(?i)seed|same (noise|numbers|random)|random|noise|SeedGenerator|sampl",
    ),
    Fault(
        name="stream split after reshuffling",
        starter="blank",
        kind=kinds.LEAKS,
        edits=(*STREAM, Edit("data.py", ", reshuffle_each_iteration=False)", ")")),
        cause="shuffle makes another order in each iteration, before take and skip: in every epoch "
        "other examples are in training and in validation, so that the model is trained on "
        "examples of the test",
        file="data.py",
        named=r"(?i)reshuffl|shuffle|leak|in (both|several|two)|also in|overlap|other examples|each (time|iteration|read)|same examples|differ|twice|again",
    ),
)

FAULTS: tuple[Fault, ...] = (*LM_FAULTS, *GAN_FAULTS, *IMAGE_FAULTS, *BLANK_FAULTS)

# ------------------------------------------------------------------------------ correct tasks

TASKS: tuple[Change, ...] = (
    Change(name="text classification", starter="blank", edits=TEXT),
    Change(name="forecast log cosh", starter="blank", edits=FORECAST),
    Change(name="contrastive towers", starter="blank", edits=CONTRASTIVE),
    Change(name="multitask missing labels", starter="blank", edits=MULTITASK),
    Change(name="variational autoencoder of ellipses", starter="blank", edits=VAE),
    Change(name="mean teacher", starter="blank", edits=TEACHER),
    Change(
        name="language model: smoothing and z loss",
        starter="language_model",
        edits=(
            before(
                "losses.py",
                "# TODO(5): your losses",
                "class SmoothedCrossEntropy(keras.losses.Loss):\n"
                '    """Cross-entropy of logits, a part of which is spread over all tokens."""\n\n'
                "    def __init__(self, smoothing: float) -> None:\n"
                '        super().__init__(reduction="none")\n'
                "        self.smoothing = smoothing\n\n"
                "    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:\n"
                '        """Targets (batch, T) and logits (batch, T, TOKENS) -> (batch, T)."""\n'
                "        logs = tf.nn.log_softmax(y_pred)\n"
                "        targets = tf.cast(y_true, tf.int32)\n"
                "        right = tf.gather(logs, targets, axis=-1, batch_dims=2)\n"
                "        spread = tf.reduce_mean(logs, axis=-1)\n"
                "        return -(1 - self.smoothing) * right - self.smoothing * spread\n\n\n",
            ),
            Edit(
                "losses.py",
                'return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}',
                'return {"main": SmoothedCrossEntropy(0.05)}',
            ),
            Edit(
                "steps.py",
                '    return {"main": compute_loss(per_token, weights, run.model, replica)}\n',
                "    return _with_z(run, per_token, logits, weights, replica)\n",
                "*",
            ),
            before(
                "steps.py",
                "TRAIN_STEPS = (train_step,)",
                "def _with_z(\n"
                "    run: Run, per_token: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor, replica: Replica\n"
                ") -> dict[str, tf.Tensor]:\n"
                '    """The loss, which keeps the logits\' normalizer near 1 (Chowdhery et al., 2022)."""\n'
                "    z = tf.nn.compute_average_loss(\n"
                "        tf.square(tf.reduce_logsumexp(logits, axis=-1)),\n"
                "        sample_weight=weights,\n"
                "        global_batch_size=replica.global_count,\n"
                "    )\n"
                "    loss = compute_loss(per_token, weights, run.model, replica)\n"
                '    return {"main": loss + 1e-3 * z, "z": z}\n\n\n',
            ),
            Edit("steps.py", "TERMS: tuple[str, ...] = ()", 'TERMS = ("z",)'),
        ),
    ),
    Change(
        name="language model: convolutions tied embedding",
        starter="language_model",
        edits=(
            before(
                "model.py",
                "# TODO(4): what your model takes",
                '@keras.saving.register_keras_serializable("tied")\n'
                "class TiedEmbedding(keras.layers.Layer):\n"
                '    """Vectors of tokens; and, in reverse, how much a vector is like each of them."""\n\n'
                "    def __init__(self, tokens: int, width: int, **kwargs: Any) -> None:\n"
                "        super().__init__(**kwargs)\n"
                "        self.sizes = tokens, width\n"
                "        self.table = self.add_weight(\n"
                '            shape=(tokens, width), initializer=keras.initializers.RandomNormal(0.0, 0.3), name="table"\n'
                "        )\n"
                '        self.offsets = self.add_weight(shape=(tokens,), initializer="zeros", name="offsets")\n\n'
                "    def call(self, x: Any, reverse: bool = False) -> Any:\n"
                '        """(batch, T) -> (batch, T, width); or (batch, T, width) -> (batch, T, tokens)."""\n'
                "        if not reverse:\n"
                "            return keras.ops.take(self.table, x, axis=0)\n"
                "        return keras.ops.matmul(x, keras.ops.transpose(self.table)) + self.offsets\n\n"
                "    def get_config(self) -> dict[str, Any]:\n"
                '        """What the constructor gets."""\n'
                "        tokens, width = self.sizes\n"
                '        return super().get_config() | {"tokens": tokens, "width": width}\n\n\n',
            ),
            Edit(
                "model.py",
                at.TRANSFORMER
                + """\
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(tokens, logits)
""",
                """    # Full precision even under --precision float16, where a loss in float16 could overflow.
    embedding = TiedEmbedding(TOKENS, task.width, dtype=keras.config.floatx())
    x = embedding(tokens)  # (batch, T, width)
    for _ in range(task.layers):
        for dilation in (1, 2, 4, 8, 16):  # 63 tokens together
            y = layers.LayerNormalization()(x)
            y = layers.Conv1D(
                2 * task.width, 3, padding="causal", dilation_rate=dilation, kernel_initializer="he_normal"
            )(y)
            values, gates = keras.ops.split(y, 2, axis=-1)
            y = keras.ops.tanh(values) * keras.ops.sigmoid(gates)  # as in WaveNet
            x = x + layers.Dropout(task.dropout)(y)
    x = layers.LayerNormalization()(x)
    return keras.Model(tokens, embedding(x, reverse=True))
""",
            ),
        ),
    ),
    Change(
        name="GAN: hinge r1 two updates",
        starter="gan",
        edits=(
            *SWAPPED_HINGE,
            Edit("losses.py", "tf.nn.relu(1 + on_real[:, 0])", "tf.nn.relu(1 - on_real[:, 0])"),
            Edit(
                "losses.py",
                "tf.nn.relu(1 - on_generated[:, 0])",
                "tf.nn.relu(1 + on_generated[:, 0])",
            ),
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n",
                "    with tf.GradientTape() as tape:\n"
                "        tape.watch(images)\n"
                "        on_real = discriminator(images, training=True)  # (batch, 1)\n"
                "    slopes = tape.gradient(on_real, images)  # (batch, h, w, channels)\n"
                "    # R1 (Mescheder et al., 2018).\n"
                "    penalty = tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3])  # (batch,)\n",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                "compute_loss(per_example, weights, discriminator, replica)",
                "compute_loss(per_example + 0.2 * penalty, weights, discriminator, replica)",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                at.GAN_STEPS,
                "TRAIN_STEPS = (discriminator_step, discriminator_step, generator_step)",
            ),
            after(
                "optimizer.py",
                at.SCHEDULE,
                "    # The discriminator is updated twice in a step.\n"
                "    twice = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=2 * steps)\n",
            ),
            Edit(
                "optimizer.py",
                '"discriminator": keras.optimizers.Adam(schedule, beta_1=0.5)',
                '"discriminator": keras.optimizers.Adam(twice, beta_1=0.5)',
            ),
        ),
    ),
    Change(
        name="image mixup",
        edits=(
            Edit(
                "data.py",
                at.SHIFTED,
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        # Mixup (Zhang et al., 2018) with the image at the other end of the batch.\n"
                "        seed = tf.random.experimental.stateless_fold_in(seed, 1)\n"
                "        share = tf.random.stateless_uniform((images.shape[0],), seed, 0.0, 0.4)\n"
                "        # Padding is mixed into nothing.\n"
                "        share = tf.where(tf.reverse(weights, [0]) > 0, share, 0.0)\n"
                "        share = tf.cast(share, images.dtype)\n"
                "        labels = tf.one_hot(labels, CLASSES, dtype=images.dtype)  # (batch, CLASSES)\n"
                "        one, all_of = share[:, tf.newaxis], share[:, tf.newaxis, tf.newaxis, tf.newaxis]\n"
                "        labels = (1 - one) * labels + one * tf.reverse(labels, [0])\n"
                "        return (1 - all_of) * images + all_of * tf.reverse(images, [0]), labels, weights\n",
            ),
            Edit("data.py", "    if not task.shift:\n        return None\n\n", ""),
            before("data.py", "VALIDATION_IMAGES = 5_000", "CLASSES = 10\n"),
            Edit(
                "losses.py",
                'return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}',
                "return {\n"
                '        "main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),\n'
                '        "mixed": keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none"),\n'
                "    }",
            ),
            Edit(
                "steps.py",
                'run.losses["main"](labels, predictions)',
                'run.losses["mixed"](labels, predictions)',
                "train_step",
            ),
            Edit(
                "steps.py",
                "update_state(labels, predictions, weights)",
                "update_state(tf.argmax(labels, axis=-1), predictions, weights)",
                "train_step",
            ),
        ),
    ),
)
