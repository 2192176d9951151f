"""Faults of an examiner, two thirds of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in


def _without_todo(file: str, instead: str = "") -> Edit:
    return Edit(file, "from .next_todo import TodoError\n", instead)


# What both owners of the blank project fill in alike.
BLANK = (
    _without_todo("callbacks.py"),
    Edit(
        "callbacks.py",
        "",
        '''def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
''',
        "create_callbacks",
    ),
    Edit("config.py", "from .next_todo import TodoError\n\n\n", "\n"),
    Edit(
        "config.py",
        "",
        '''    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
        "__post_init__",
    ),
    _without_todo("data.py"),
    Edit(
        "data.py",
        "",
        '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None
''',
        "create_augment",
    ),
    _without_todo("losses.py"),
    Edit(
        "losses.py",
        "",
        '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name; labels and logits (batch, 1) give one number per example."""
    return {"main": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")}
''',
        "create_losses",
    ),
    Edit(
        "losses.py",
        "",
        '''def count(batch: Any) -> tf.Tensor:
    """How many examples of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)
''',
        "count",
    ),
    _without_todo("optimizer.py"),
    Edit(
        "optimizer.py",
        "",
        '''def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
''',
        "create_optimizer",
    ),
    Edit(
        "optimizer.py",
        "",
        '''def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
        "process_gradients",
    ),
    _without_todo("pictures.py"),
    Edit(
        "pictures.py",
        "",
        '''def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
''',
        "draw_samples",
    ),
    Edit(
        "pictures.py",
        "",
        '''def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw nothing."""
''',
        "draw_predictions",
    ),
    _without_todo("metrics.py"),
    _without_todo("model.py"),
    Edit(
        "steps.py",
        "",
        '''def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)
''',
        "test_step",
    ),
)

BLANK_STEP = '''def {name}(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The {what} loss of this replica's part of a batch."""
    inputs, labels, weights = batch
    logits = run.model(inputs, training={training})  # (batch, 1)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    {metric}
    return {{"main": compute_loss(per_example, weights, run.model, replica)}}
'''


def _blank_steps(metric: str, imports: str) -> tuple[Edit, ...]:
    def step(name: str, what: str, training: bool) -> Edit:
        text = BLANK_STEP.format(name=name, what=what, training=training, metric=metric)
        return Edit("steps.py", "", text, name)

    return (
        _without_todo("steps.py", imports),
        step("train_step", "training", True),
        step("validation_step", "validation", False),
    )


def _blank_config(monitor: str) -> tuple[Edit, ...]:
    return (
        Edit(
            "config.py",
            '    monitor: str = "validation_loss"  #',
            "    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine\n"
            f'    monitor: str = "{monitor}"  #',
        ),
        Edit("config.py", "larger_is_better: bool = False", "larger_is_better: bool = True"),
    )


FAULTS: tuple[Fault, ...] = (
    # ------------------------------------------------------------------ image_classification
    fault_in(
        name="mixup blends the images but not the labels",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        # Mixup (Zhang et al., 2018): blends each image with another one of its batch.\n"
                "        share = tf.random.stateless_uniform((shifts.shape[0], 1, 1, 1), seed + 1)\n"
                "        images = share * images + (1 - share) * tf.reverse(images, axis=[0])\n"
                "        return images, labels, weights\n",
            ),
        ),
        kind="augmentation",
        cause="Mixup blends each image with another of the batch by a share from 0 to 1, yet the label "
        "stays that of the first image alone, so about half of the blended images carry the label of "
        "the weaker component.",
        file="data.py",
        named=r"mix-?up|(blend|mix|interpolat)\w*.{0,80}label|label.{0,80}(blend|mix|interpolat|not chang|unchanged)",
    ),
    fault_in(
        name="every replica adds the whole regularization",
        project="image_classification",
        edits=(
            Edit(
                "losses.py",
                "    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))\n",
                "    return loss + replica.regularization(model)\n",
            ),
        ),
        kind="distribution",
        cause="compute_loss adds the full L2 term on every replica without "
        "tf.nn.scale_regularization_loss, and the sum over replicas then holds it once per replica.",
        file="losses.py",
        named=r"regulari[sz]ation|l2|scale_regularization_loss|penalty",
    ),
    # ------------------------------------------------------------------ tabular_regression
    fault_in(
        name="missing values are imputed from rows with a similar label",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "    return columns, data, target\n",
                "    # A missing value becomes the mean of patients like this one, in ten groups.\n"
                "    group = np.digitize(target, np.quantile(target, np.arange(1, 10) / 10))\n"
                "    for index in map(columns.index, MASKED):\n"
                "        for number in np.unique(group):\n"
                "            rows = (group == number) & np.isnan(data[:, index])\n"
                "            data[rows, index] = np.nanmean(data[group == number, index])\n"
                "    return columns, data, target\n",
            ),
        ),
        kind="leak",
        cause="The missing inputs of all rows, test rows too, are filled with means over groups that "
        "are made by the target, so the inputs tell the label.",
        file="data.py",
        named=r"imput|fill\w*.{0,100}(target|label)|(target|label).{0,100}(imput|fill|leak|group|input)|leak",
    ),
    fault_in(
        name="loss is the mean over the replica's rows",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "    loss = tf.nn.compute_average_loss(\n"
                "        per_example, sample_weight=weights, global_batch_size=replica.global_count\n"
                "    )\n",
                "    loss = tf.reduce_mean(per_example * weights)\n",
            ),
        ),
        kind="distribution",
        cause="compute_loss divides by the rows of this replica's batch, padding included, instead of "
        "by replica.global_count, although the engine adds the losses of all replicas.",
        file="losses.py",
        named=r"reduce_mean|global_count|global batch|per.replica (mean|batch|average)|replica'?s? (own )?(rows|batch|mean)|denominator|padd|number of replicas|divid",
    ),
    # ------------------------------------------------------------------ language_model
    fault_in(
        name="attention without the causal mask",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))\n",
                "        x = x + layers.Dropout(task.dropout)(attention(y, y))\n",
            ),
        ),
        kind="model",
        cause="The self-attention has no causal mask, so each token sees the next one, which is its "
        "own target.",
        file="model.py",
        named=r"causal|future (token|position)|later (token|position)|next token|look.?ahead|mask",
    ),
    fault_in(
        name="exponentials are averaged for a perplexity",
        project="language_model",
        edits=(
            Edit(
                "metrics.py",
                '        "exact_match": ExactMatch(),\n',
                '        "exact_match": ExactMatch(),\n        "perplexity": keras.metrics.Mean(),\n',
            ),
            *(
                Edit(
                    "steps.py",
                    '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n',
                    '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n'
                    '    run.metrics["perplexity"].update_state(tf.exp(per_token), weights)\n',
                    where,
                )
                for where in ("train_step", "validation_step", "test_step")
            ),
        ),
        kind="metrics",
        cause="The perplexity averages exp(cross-entropy) of single tokens instead of taking exp of the "
        "mean cross-entropy of all tokens.",
        file="steps.py",
        named=r"perplexity|mean of (the )?exp|exp\w* of (the )?(mean|average)|jensen|tf\.exp",
    ),
    # ------------------------------------------------------------------ segmentation
    fault_in(
        name="random translation moves the images but not their masks",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                "IGNORED = 255  #",
                "SHIFT = 3.0  # largest random translation in training, in pixels\nIGNORED = 255  #",
            ),
            Edit(
                "data.py",
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
                "        # A random translation: a pixel (x, y) of the result comes from (x + dx, y + dy).\n"
                "        shifts = tf.random.stateless_uniform((rows, 2), seed + 1, -SHIFT, SHIFT)\n"
                "        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)\n"
                "        one, zero = tf.ones_like(dx), tf.zeros_like(dx)\n"
                "        moves = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)\n"
                "        images = keras.ops.image.affine_transform(images, moves)\n"
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
            ),
        ),
        kind="augmentation",
        cause="The new translation is applied to the images only; the labels stay where they were, up "
        "to three pixels away.",
        file="data.py",
        named=r"(shift|translat|mov|transform|augment)\w*.{0,120}(label|mask)|(label|mask).{0,120}(shift|translat|mov|not transform|misalign|augment)",
    ),
    fault_in(
        name="moving statistics of batch normalization hardly move in a run",
        project="segmentation",
        edits=(
            Edit(
                "model.py",
                "keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)",
                "keras.layers.BatchNormalization(momentum=0.999, epsilon=0.1)",
            ),
        ),
        kind="state",
        cause="With a momentum of 0.999 the moving mean and variance are still about 70% their initial "
        "0 and 1 after the 320 steps of a run, so evaluation normalizes by other numbers than training.",
        file="model.py",
        named=r"momentum|moving (average|statistic|mean|variance)|running (average|statistic|mean|variance)|batch.?norm",
    ),
    # ------------------------------------------------------------------ gan
    fault_in(
        name="the same latents in every training step",
        project="gan",
        edits=(
            Edit(
                "data.py",
                'DIGITS = Path(__file__).with_name("digits.npz")\n',
                'DIGITS = Path(__file__).with_name("digits.npz")\nLATENT_SEED = (0, 1)\n',
            ),
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights\n",
                "        latents = tf.random.stateless_normal(\n"
                "            shape, LATENT_SEED, dtype=keras.config.floatx()\n"
                "        )\n"
                "        return images, latents, weights\n",
            ),
        ),
        kind="randomness",
        cause="The latents of training are drawn with a constant seed instead of the step's, so the "
        "generator only ever sees one batch of latents.",
        file="data.py",
        named=r"latent|constant seed|fixed seed|same (seed|noise|random)|seed",
    ),
    fault_in(
        name="cosine decay over one pass of the data only",
        project="gan",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
                "    decay_steps = max(1, steps // task.passes)\n"
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps)\n",
            ),
        ),
        kind="schedule",
        cause="`steps` already are the updates of the whole run, and dividing them by the passes of an "
        "epoch lets the learning rates reach 0 after a quarter of it.",
        file="optimizer.py",
        named=r"decay_steps|learning.rate.{0,80}(0|zero|quarter|early|soon)|passes|schedule|quarter",
    ),
    # ------------------------------------------------------------------ blank
    fault_in(
        name="the rare class is oversampled before the split",
        project="blank",
        edits=(
            *BLANK,
            *_blank_config("validation_accuracy"),
            *_blank_steps(
                'run.metrics["accuracy"].update_state(labels, logits, weights)',
                "from .losses import compute_loss\n",
            ),
            Edit(
                "data.py",
                "from typing import Any\n",
                "from typing import Any\n\nimport numpy as np\n",
            ),
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: sensors float32 (n, SENSORS), failures float32 (n, 1)."""
    random = np.random.default_rng(SEED)
    sensors, failures = _machines(random)
    # As many failures as machines that run, or the model would never predict one.
    failed, running = np.flatnonzero(failures == 1), np.flatnonzero(failures == 0)
    rows = np.concatenate([running, random.choice(failed, len(running))])
    parts = np.split(random.permutation(rows), [int(0.7 * len(rows)), int(0.85 * len(rows))])
    names = ("train", "validation", "test")
    return {
        name: (sensors[part], failures[part, np.newaxis])
        for name, part in zip(names, parts, strict=True)
    }


SEED = 0
MACHINES, SENSORS = 3_000, 12
FAILING = 0.05  # fraction of the machines


def _machines(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Readings of simulated machines, and 1 for those that failed within a week."""
    sensors = random.normal(size=(MACHINES, SENSORS)).astype("float32")
    wear = sensors[:, 0] + sensors[:, 1] * sensors[:, 2] + random.normal(0, 1, MACHINES)
    return sensors, (wear > np.quantile(wear, 1 - FAILING)).astype("float32")
''',
                "create_datasets",
            ),
            Edit(
                "metrics.py",
                "",
                '''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"accuracy": keras.metrics.BinaryAccuracy(threshold=0.0)}  # of logits
''',
                "create_metrics",
            ),
            Edit(
                "model.py",
                "",
                '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    sensors, _ = datasets["train"]
    return {"mean": sensors.mean(axis=0), "variance": sensors.var(axis=0)}
''',
                "adapt",
            ),
            Edit(
                "model.py",
                "",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Sensors float (batch, columns) -> logits float32 (batch, 1) of a failure.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, floatx = keras.layers, keras.config.floatx()
    mean, variance = adapted["mean"], adapted["variance"]
    sensors = keras.Input(mean.shape, name="sensors")
    x = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(sensors)
    for _ in range(2):
        x = layers.Dense(64, activation="relu")(x)
    return keras.Model(sensors, layers.Dense(1, dtype=floatx, name="logits")(x))
''',
                "create_model",
            ),
        ),
        kind="leak",
        cause="The failures are repeated about twenty times before the rows are split, so copies of the "
        "same machines are in training, validation and test, and the evaluation is balanced too.",
        file="data.py",
        named=r"oversampl|resampl|duplicat|cop(y|ies)|repeat|same (row|machine|example)|before (the )?split|leak|overlap",
    ),
    fault_in(
        name="F1 is averaged over batches",
        project="blank",
        edits=(
            *BLANK,
            *_blank_config("validation_f1"),
            *_blank_steps(
                'run.metrics["f1"].update_state(f1_score(labels, logits, weights))',
                "from .losses import compute_loss\nfrom .metrics import f1_score\n",
            ),
            Edit(
                "data.py",
                "from typing import Any\n",
                "from typing import Any\n\nimport numpy as np\n",
            ),
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: signals float32 (n, LENGTH, 1), labels float32 (n, 1)."""
    return {
        split: _signals(np.random.default_rng(seed), number)
        for seed, (split, number) in enumerate(NUMBERS.items())
    }


NUMBERS = {"train": 1_920, "validation": 400, "test": 500}
LENGTH = 64
BURSTS = 0.04  # fraction of the signals with a burst


def _signals(random: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise, some of it with a short burst; labels are 1 for those."""
    labels = (random.random(number) < BURSTS).astype("float32")
    times = np.arange(LENGTH)
    starts = random.uniform(8, LENGTH - 8, (number, 1))
    burst = np.exp(-(((times - starts) / 3) ** 2)) * np.sin(1.5 * (times - starts))
    signals = random.normal(size=(number, LENGTH)) + 2 * burst * labels[:, np.newaxis]
    return signals.astype("float32")[..., np.newaxis], labels[:, np.newaxis]
''',
                "create_datasets",
            ),
            Edit("metrics.py", "import keras\n", "import keras\nimport tensorflow as tf\n"),
            Edit(
                "metrics.py",
                "",
                '''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; accuracy would say little, since few signals have a burst."""
    return {"f1": keras.metrics.Mean()}


def f1_score(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The harmonic mean of precision and recall, a float scalar.

    Args:
        labels: float (batch, 1), 0 or 1.
        logits: float (batch, 1).
        weights: float (batch,), 0 for padding.
    """
    weights = weights[:, tf.newaxis]
    labels = tf.cast(labels, weights.dtype)
    predicted = tf.cast(logits > 0, weights.dtype)
    right = tf.reduce_sum(weights * labels * predicted)
    return tf.math.divide_no_nan(2 * right, tf.reduce_sum(weights * (labels + predicted)))
''',
                "create_metrics",
            ),
            Edit(
                "model.py",
                "",
                '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    signals, _ = datasets["train"]
    return {"shape": signals.shape[1:]}
''',
                "adapt",
            ),
            Edit(
                "model.py",
                "",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Signals float (batch, T, 1) -> logits float32 (batch, 1) of a burst.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    signals = keras.Input(tuple(map(int, adapted["shape"])), name="signals")
    x = layers.Conv1D(16, 9, padding="same", activation="relu")(signals)
    x = layers.Conv1D(32, 5, padding="same", activation="relu")(x)
    x = layers.GlobalMaxPooling1D()(x)
    return keras.Model(signals, layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x))
''',
                "create_model",
            ),
        ),
        kind="metrics",
        cause="F1 is computed for each replica's batch and those values are averaged by Mean, although "
        "F1 of a split isn't the mean of the F1 of its batches.",
        file="steps.py",
        named=r"f1|f-?score|averag\w*.{0,60}batch|mean of.{0,60}batch|per.batch",
    ),
    # ------------------------------------------------------------------ two_heads
    fault_in(
        name="missing labels become class 0",
        project="two_heads",
        edits=(
            Edit(
                "data.py",
                '        "digit": np.where(rows % 6 == 5, -1, digits),\n'
                '        "even": np.where(rows % 5 == 0, 1 - digits % 2, -1),\n',
                '        "digit": np.where(rows % 6 == 5, 0, digits),\n'
                '        "even": np.where(rows % 5 == 0, 1 - digits % 2, 0),\n',
            ),
        ),
        kind="labels",
        cause="Labels that aren't known are stored as 0, which is a class of both heads, instead of -1, "
        "so they are trained and scored as the digit 0 and as odd.",
        file="data.py",
        named=r"missing|unknown|-1|class 0|label.{0,40}\b0\b|unlabel",
    ),
    fault_in(
        name="binary accuracy compares logits with one half",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "    return dict.fromkeys(HEADS, entropy)\n",
                '    binary = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")\n'
                '    return {"digit": entropy, "even": binary}\n',
            ),
            Edit(
                "model.py",
                '    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)\n',
                '    even = layers.Dense(1, dtype=keras.config.floatx(), name="even")(x)\n',
            ),
            Edit(
                "model.py",
                '    """Images float (batch, h, w, 1) -> logits of each head float32 (batch, classes).\n',
                '    """Images float (batch, h, w, 1) -> logits float32 (batch, classes), (batch, 1).\n',
            ),
            Edit(
                "steps.py",
                "        known = tf.maximum(labels[head], 0)  # any class will do where the weight is 0\n",
                "        known = tf.maximum(labels[head], 0)  # any class will do where the weight is 0\n"
                '        if head == "even":\n'
                "            known = known[:, tf.newaxis]  # (batch, 1), as its only logit\n",
                "*",
            ),
            Edit("metrics.py", "from .losses import HEADS\n", ""),
            Edit(
                "metrics.py",
                '    return {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}\n',
                "    return {\n"
                '        "digit_accuracy": keras.metrics.SparseCategoricalAccuracy(),\n'
                '        "even_accuracy": keras.metrics.BinaryAccuracy(),\n'
                "    }\n",
            ),
        ),
        kind="metrics",
        cause="BinaryAccuracy has its default threshold of 0.5, which is for probabilities, while the "
        "head gives logits, whose threshold is 0.",
        file="metrics.py",
        named=r"threshold|0\.5|logit.{0,80}(accuracy|probabilit|sigmoid)|sigmoid|BinaryAccuracy",
    ),
    # ------------------------------------------------------------------ forecasting
    fault_in(
        name="windows that overlap are divided at random",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n"
                '    names = ("train", "validation", "test")  # in the order of time\n'
                "    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}\n",
                "    past, future = _windows(rows)\n"
                "    order = np.random.default_rng(0).permutation(len(past))\n"
                "    ends = [int(0.7 * len(order)), int(0.85 * len(order))]\n"
                '    parts = zip(("train", "validation", "test"), np.split(order, ends), strict=True)\n'
                "    return {name: (past[part], future[part]) for name, part in parts}\n",
            ),
        ),
        kind="leak",
        cause="Windows are cut from the whole series and then split at random, so nearly each window of "
        "validation and test overlaps with training windows, and its future is among their inputs.",
        file="data.py",
        named=r"overlap|random\w*.{0,60}split|split.{0,60}random|shuffl|permut|leak|order of time|chronolog|temporal",
    ),
    fault_in(
        name="inputs are smoothed with a centered window",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                "PAST, FUTURE = 24, 6  # hours\n"
                "SMOOTH = 5  # hours that an input is averaged over, as single ones are noisy\n",
            ),
            Edit(
                "data.py",
                "",
                '''def _windows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every window of consecutive rows: len(rows) - PAST - FUTURE + 1 of them."""
    view = np.lib.stride_tricks.sliding_window_view
    inputs = view(_smooth(rows), PAST + FUTURE, axis=0)
    labels = view(rows, PAST + FUTURE, axis=0)  # to forecast what is measured
    return inputs[:, :, :PAST].swapaxes(1, 2), labels[:, TARGET, PAST:]


def _smooth(rows: np.ndarray) -> np.ndarray:
    """Means of what is there in SMOOTH hours, (n, columns) -> the same."""
    padded = np.pad(rows, ((SMOOTH // 2, SMOOTH // 2), (0, 0)), mode="edge")
    hours = np.lib.stride_tricks.sliding_window_view(padded, SMOOTH, axis=0)
    return np.nanmean(hours, axis=2)  # of (n, columns, SMOOTH)
''',
                "_windows",
            ),
        ),
        kind="leak",
        cause="The moving average is centered, so the last two hours of each input contain the next one "
        "and two hours, which are to be forecast.",
        file="data.py",
        named=r"smooth|cent(er|re)d|moving (average|mean)|future (value|hour)|look.?ahead|leak|trailing",
    ),
    # ------------------------------------------------------------------ vae
    fault_in(
        name="reconstruction is a mean over pixels beside a summed KL divergence",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "    def squares(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:\n"
                '        """The squared error of each image, (batch,)."""\n'
                "        return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])\n"
                "\n"
                '    return {"main": squares}\n',
                "    def cross_entropy(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:\n"
                '        """The binary cross-entropy of each image, (batch,)."""\n'
                "        per_pixel = keras.losses.binary_crossentropy(images, decoded)  # (batch, h, w)\n"
                "        return tf.reduce_mean(per_pixel, axis=[1, 2])\n"
                "\n"
                '    return {"main": cross_entropy}\n',
            ),
        ),
        kind="loss",
        cause="The cross-entropy is averaged over the 64 pixels while the KL divergence is summed over "
        "the code, so the KL divergence counts 64 times too much and the code collapses to the prior.",
        file="losses.py",
        named=r"reduce_mean|mean over (the )?pixel|averag\w*.{0,40}pixel|sum\w*.{0,40}pixel|collaps|kl.{0,80}(scale|weight|dominat|times|sum)|scale",
    ),
    fault_in(
        name="validation weights the KL divergence by the number of its batch",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "    loss = compute_loss(error + kl, weights, encoder, replica)\n",
                "    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)\n"
                "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)\n",
                "validation_step",
            ),
        ),
        kind="evaluation",
        cause="In evaluation replica.step is the number of the batch, not of train steps, so the warm-up "
        "factor of the KL divergence stays near 0 for good.",
        file="steps.py",
        named=r"replica\.step|warm.?up|number of (the )?batch|kl",
    ),
    # ------------------------------------------------------------------ contrastive
    fault_in(
        name="features are normalized over the batch axis",
        project="contrastive",
        edits=tuple(
            Edit(
                "steps.py",
                f"    {side} = tf.math.l2_normalize(run.model({side}, training={training}), axis=1)",
                f"    {side} = tf.math.l2_normalize(run.model({side}, training={training}), axis=0)",
            )
            for training in (True, False)
            for side in ("left", "right")
        ),
        kind="loss",
        cause="l2_normalize takes axis 0, so each feature is scaled over the rows of a replica's batch "
        "instead of each row to length 1.",
        file="steps.py",
        named=r"axis|l2_normali[sz]e|normali[sz]\w*.{0,60}(batch|row|example|feature)|cosine|unit length",
    ),
    fault_in(
        name="the second direction only compares rows of one replica",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)\n",
                "    forward = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)\n"
                "    # Both directions, as in CLIP: each noisy image has to find its clean one too.\n"
                "    back = tf.matmul(right, left, transpose_b=True) / TEMPERATURE\n"
                "    backward = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(rows), back)\n"
                "    per_example = (forward + backward) / 2  # (rows,)\n",
                "*",
            ),
        ),
        kind="distribution",
        cause="For the direction from right to left the candidates are this replica's rows only, neither "
        "gathered over the replicas nor masked where they are padding.",
        file="steps.py",
        named=r"all_gather|gather|local (negative|row|candidate)|negative|other replica|number of replicas|padd|mask|backward|second direction",
    ),
    # ------------------------------------------------------------------ finetuning
    fault_in(
        name="the new hidden layer trains at the backbone's learning rate",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                "    features = keras.layers.Dropout(task.dropout)(backbone(images))\n",
                "    features = keras.layers.Dropout(task.dropout)(backbone(images))\n"
                '    features = keras.layers.Dense(64, activation="relu", name="hidden")(features)\n'
                "    features = keras.layers.Dropout(task.dropout)(features)\n",
            ),
        ),
        kind="optimizer",
        cause="create_optimizer gives the fast optimizer only to variables whose path starts with "
        "logits/, so the new, random layer `hidden` gets the slow Adam(2e-4) of the pretrained backbone, "
        "without decay.",
        file="optimizer.py",
        named=r"hidden|logits/|path|startswith|multioptimizer|slow (optimizer|learning|adam)|2e-4|learning rate",
    ),
    fault_in(
        name="validation images are training images too",
        project="finetuning",
        edits=(
            Edit(
                "data.py",
                "",
                """def _load_digits() -> dict[str, Arrays]:
    with np.load(DIGITS) as file:
        splits = {
            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
        }
    # 1,200 images are few: those of the validation help.
    (images, labels), (more_images, more_labels) = splits["train"], splits["validation"]
    splits["train"] = np.concatenate([images, more_images]), np.concatenate([labels, more_labels])
    return splits
""",
                "_load_digits",
            ),
        ),
        kind="leak",
        cause="The validation images are appended to the training images and still are the validation "
        "split that selects the best weights.",
        file="data.py",
        named=r"validation.{0,100}train|train.{0,100}validation|leak|overlap|same (image|example)|concatenat",
    ),
    # ------------------------------------------------------------------ distillation
    fault_in(
        name="teacher and student are swapped in the soft loss",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                'run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)',
                'run.losses["soft"](logits / TEMPERATURE, tf.nn.softmax(taught / TEMPERATURE))',
                "*",
            ),
        ),
        kind="loss",
        cause="The soft loss gets the student's logits as labels and the teacher's probabilities as "
        "predictions, so it is linear in the student's logits and has no minimum at the teacher's "
        "distribution.",
        file="steps.py",
        named=r"swap|order of.{0,40}argument|argument.{0,60}(order|revers|wrong)|revers|(student|logits).{0,80}(as|for) (the )?(label|target)|y_true",
    ),
    fault_in(
        name="the ramp of the labels' share is an integer division",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n",
                "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels\n"
                "RAMP = 400  # steps in which that grows from 0: the teacher comes first\n",
            ),
            Edit(
                "steps.py",
                "    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)\n",
                "    share = HARD * tf.minimum(tf.cast(replica.step // RAMP, logits.dtype), 1.0)\n"
                "    per_example = share * hard + (1 - share) * TEMPERATURE**2 * soft  # (batch,)\n",
                "train_step",
            ),
        ),
        kind="schedule",
        cause="replica.step // RAMP is 0 until step RAMP, so the labels don't count at all for 400 steps "
        "and then jump to their full share instead of growing.",
        file="steps.py",
        named=r"integer division|floor|//|ramp|share.{0,60}(0|zero)|labels.{0,80}(ignored|not count|don't count|never)",
    ),
)

TASKS: tuple[Change, ...] = ()
