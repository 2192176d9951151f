"""Faults and correct tasks of a seventh examiner: new kinds of tasks; blind to `check`."""

from __future__ import annotations

from . import blank, kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before

NO_AUGMENT = blank.NO_AUGMENT.lstrip().replace("No augmentation.", "None.")


def _task(
    *,
    data: str,
    model: str,
    losses: str,
    metrics: str,
    steps: str,
    settings: str = "",
    augment: str = NO_AUGMENT,
    count: str = blank.COUNT,
    callbacks: str = "    return []\n",
    optimizer: str = "    return keras.optimizers.Adam(3e-3)\n",
    interact: bool = False,
    terms: str = "",
) -> tuple[Edit, ...]:
    """The blank starter with its TODOs filled in."""
    step = 'def {0}(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:\n    """{0}."""\n    return {1}\n'
    return (
        Edit("config.py", "    monitor: str", settings + "    monitor: str"),
        Edit(
            "config.py",
            "",
            '    def __post_init__(self) -> None:\n        """All are fine."""\n',
            "__post_init__",
        ),
        after(
            "data.py",
            "from typing import Any\n",
            "\nimport keras\nimport numpy as np\nimport tensorflow as tf\n",
        ),
        Edit("data.py", "", data, "create_datasets"),
        Edit("data.py", "", augment, "create_augment"),
        after("model.py", "import numpy as np\n", "import tensorflow as tf\n"),
        Edit("model.py", "", model, "create_model"),
        Edit("losses.py", "", losses, "create_losses"),
        Edit("losses.py", "", count, "count"),
        after("metrics.py", "import keras\n", "import tensorflow as tf\n"),
        Edit("metrics.py", "", metrics, "create_metrics"),
        Edit(
            "optimizer.py",
            "",
            'def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:\n    """The optimizer."""\n'
            + optimizer,
            "create_optimizer",
        ),
        Edit(
            "optimizer.py",
            "",
            'def process_gradients(gradients, variables):\n    """As they are."""\n    return gradients\n',
            "process_gradients",
        ),
        before("steps.py", "import tensorflow as tf\n", "import keras\n"),
        Edit(
            "steps.py", "from .next_todo import TodoError\n", "from .losses import compute_loss\n"
        ),
        Edit(
            "steps.py",
            "",
            steps + "\n\n" + step.format("train_step", "_step(run, batch, replica, True)"),
            "train_step",
        ),
        Edit(
            "steps.py",
            "",
            step.format("validation_step", "_step(run, batch, replica, False)"),
            "validation_step",
        ),
        Edit(
            "steps.py",
            "",
            step.format("test_step", "_step(run, batch, replica, False)"),
            "test_step",
        ),
        Edit("steps.py", "EXAMPLES_INTERACT = False", f"EXAMPLES_INTERACT = {interact}"),
        Edit("steps.py", "TERMS: tuple[str, ...] = ()", f"TERMS: tuple[str, ...] = ({terms})"),
        Edit(
            "callbacks.py",
            "import Callback\n",
            "import Callback, Event, at_step, every_epochs, every_steps, every_validation\n",
        ),
        Edit(
            "callbacks.py",
            "",
            'def create_callbacks(task: TaskConfig) -> list[Callback]:\n    """The callbacks."""\n'
            + callbacks,
            "create_callbacks",
        ),
        Edit(
            "pictures.py",
            "",
            "def draw_samples(run, datasets, file):\n    return\n",
            "draw_samples",
        ),
        Edit(
            "pictures.py",
            "",
            "def draw_predictions(run, datasets, file):\n    return\n",
            "draw_predictions",
        ),
    )


# ---------------------------------------------------------------- two towers, negatives in the batch
RETRIEVAL = _task(
    settings="    width: int = 16\n    temperature: float = 0.1\n",
    data='''ITEMS = 48


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Queries and the item that was clicked: (features of both, the item's number)."""
    random = np.random.default_rng(0)
    catalogue = random.standard_normal((ITEMS, 16), "float32")
    to_query = random.standard_normal((16, 24), "float32") / 4
    datasets = {}
    for split, rows in (("train", 1920), ("validation", 250), ("test", 250)):
        item = random.integers(0, ITEMS, rows).astype("int32")
        query = catalogue[item] @ to_query + random.standard_normal((rows, 24), "float32") / 2
        datasets[split] = ({"query": query, "item": catalogue[item]}, item)
    return datasets
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """A tower for queries and one for items; vectors of length 1."""

    def tower(name: str, size: int) -> keras.Model:
        x = inputs = keras.Input((size,))
        x = keras.layers.Dense(64, activation="relu")(x)
        x = keras.layers.Dense(task.width)(x)
        return keras.Model(inputs, keras.layers.UnitNormalization(dtype=keras.config.floatx())(x), name=name)

    return {"query": tower("query", 24), "item": tower("item", 16)}
''',
    losses=blank.create_losses(at.SPARSE, "Cross-entropy among the items of the global batch."),
    metrics='''def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Recall among all items of the catalogue."""
    return {
        "recall_at_1": keras.metrics.SparseCategoricalAccuracy(),
        "recall_at_5": keras.metrics.SparseTopKCategoricalAccuracy(5),
    }
''',
    steps="""def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, item, weights = batch
    query = run.models["query"](inputs["query"], training=training)  # (batch, width)
    own = run.models["item"](inputs["item"], training=training)  # (batch, width)
    items, ids, there = (replica.all_gather(t) for t in (own, item, weights))  # (global batch, ...)
    logits = tf.matmul(query, items, transpose_b=True) / run.task.temperature
    place = replica.index * item.shape[0] + tf.range(item.shape[0])  # of its item in `items`
    is_other = place[:, tf.newaxis] != tf.range(tf.shape(ids)[0])
    # Neither padding nor the same item once more is a negative.
    left_out = is_other & ((item[:, tf.newaxis] == ids) | (there == 0))
    logits = tf.where(left_out, tf.cast(-1e9, logits.dtype), logits)
    per_example = run.losses["main"](place, logits)
    catalogue = tf.cast(run.adapted["catalogue"], keras.config.floatx())
    scores = tf.matmul(query, run.models["item"](catalogue, training=False), transpose_b=True)
    for metric in run.metrics.values():
        metric.update_state(item, tf.cast(scores, tf.float32), weights)
    return {"main": compute_loss(per_example, weights, run.models["query"], replica)}
""",
    interact=True,
) + (
    Edit(
        "model.py",
        "    return {}\n",
        '    inputs, item = datasets["train"]\n'
        '    return {"catalogue": inputs["item"][np.unique(item, return_index=True)[1]]}\n',
        "adapt",
    ),
    Edit("config.py", '"validation_loss"', '"validation_recall_at_1"'),
    Edit("config.py", "larger_is_better: bool = False", "larger_is_better: bool = True"),
)

# ---------------------------------------------------------------- mean teacher, few labels
MEAN_TEACHER = _task(
    settings="    decay: float = 0.95\n",
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points of four classes; in training nine in ten have no label (-1)."""
    random = np.random.default_rng(0)
    centers = 1.5 * random.standard_normal((4, 8), "float32")
    datasets = {}
    for split, rows in (("train", 1920), ("validation", 250), ("test", 250)):
        labels = random.integers(0, 4, rows).astype("int32")
        points = centers[labels] + random.standard_normal((rows, 8), "float32")
        if split == "train":
            labels[random.uniform(size=rows) < 0.9] = -1
        datasets[split] = (points, labels)
    return datasets
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """The student, and the teacher, which is a moving average of it (see callbacks.py)."""

    def network(name: str) -> keras.Model:
        x = inputs = keras.Input((8,))
        x = keras.layers.GaussianNoise(0.3)(x)
        x = keras.layers.Dense(64, activation="relu")(x)
        return keras.Model(inputs, keras.layers.Dense(4, dtype=keras.config.floatx())(x), name=name)

    student, teacher = network("student"), network("teacher")
    teacher.trainable = False
    return {"student": student, "teacher": teacher}
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Of the examples with a label; and of the distance from the teacher."""
    return {
        "supervised": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none"),
        "consistency": keras.losses.MeanSquaredError(reduction="none"),
    }
''',
    count='''def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many examples count, and how many of them have a label."""
    _, labels, weights = batch
    return {
        "supervised": tf.math.count_nonzero((labels >= 0) & (weights != 0), dtype=tf.int32),
        "consistency": tf.math.count_nonzero(weights, dtype=tf.int32),
    }
''',
    metrics=blank.create_metrics(at.ACCURACY, "Of the teacher."),
    steps="""def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    points, labels, weights = batch
    logits = run.models["student"](points, training=training)
    of_teacher = run.models["teacher"](points, training=training)  # with noise of its own
    labeled = tf.where(labels >= 0, weights, tf.zeros_like(weights))
    supervised = run.losses["supervised"](tf.maximum(labels, 0), logits)
    consistency = run.losses["consistency"](tf.nn.softmax(of_teacher), tf.nn.softmax(logits))
    run.metrics["accuracy"].update_state(tf.maximum(labels, 0), of_teacher, labeled)
    parts = {
        "supervised": tf.nn.compute_average_loss(
            supervised, sample_weight=labeled, global_batch_size=replica.global_count["supervised"]
        ),
        "consistency": tf.nn.compute_average_loss(
            consistency, sample_weight=weights, global_batch_size=replica.global_count["consistency"]
        ),
    }
    return {"main": parts["supervised"] + 5.0 * parts["consistency"], **parts}
""",
    terms='"supervised", "consistency"',
    callbacks='''    return [at_step(0, _copy), every_steps(1, _average(task.decay))]


def _copy(event: Event) -> None:
    """The teacher starts as the student."""
    event.run.models["teacher"].set_weights(event.run.models["student"].get_weights())


def _average(decay: float):
    def average(event: Event) -> None:
        student, teacher = event.run.models["student"], event.run.models["teacher"]
        pairs = zip(teacher.get_weights(), student.get_weights(), strict=True)
        teacher.set_weights([decay * t + (1 - decay) * s if t.dtype.kind == "f" else t for t, s in pairs])

    return average
''',
)

# ---------------------------------------------------------------- forecasts from windows
FORECAST = _task(
    data='''LENGTH = 24


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows of a series, and what comes next; later parts of it validate and test."""
    random = np.random.default_rng(0)
    time = np.arange(1900)
    series = 5 + np.sin(time / 7) + np.sin(time / 31) / 2 + random.standard_normal(time.shape) / 10
    parts = {"train": series[:1300], "validation": series[1300:1600], "test": series[1600:]}
    return {split: _windows(part.astype("float32")) for split, part in parts.items()}


def _windows(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Float (n, LENGTH, 1), and the next value (n, 1)."""
    windows = np.lib.stride_tricks.sliding_window_view(part, LENGTH + 1)
    return windows[:, :-1, np.newaxis].copy(), windows[:, -1:].copy()
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Windows (batch, LENGTH, 1) -> the next value (batch, 1)."""
    inputs = keras.Input((24, 1))
    x = keras.layers.Rescaling(1 / float(adapted["std"]), -float(adapted["mean"] / adapted["std"]))(inputs)
    x = keras.layers.LSTM(24)(x)
    return keras.Model(inputs, keras.layers.Dense(1, dtype=keras.config.floatx())(x))
''',
    losses=blank.create_losses('keras.losses.Huber(reduction="none")', "Huber loss."),
    metrics=blank.create_metrics(
        '{"mae": keras.metrics.MeanAbsoluteError()}', "Error in the units of the series."
    ),
    steps="""def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    windows, following, weights = batch
    forecast = run.model(windows, training=training)
    run.metrics["mae"].update_state(following, forecast, weights)
    return {"main": compute_loss(run.losses["main"](following, forecast), weights, run.model, replica)}
""",
    optimizer="    return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-2, steps))\n",
) + (
    Edit(
        "model.py",
        "    return {}\n",
        '    windows, _ = datasets["train"]\n    return {"mean": windows.mean(), "std": windows.std()}\n',
        "adapt",
    ),
)

# ---------------------------------------------------------------- variational autoencoder
VAE = _task(
    settings="    latent: int = 4\n",
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Vectors float32 (n, 12) in [0, 1] that lie near a surface of three dimensions."""
    random = np.random.default_rng(0)
    mix = 2 * random.standard_normal((3, 12), "float32")
    rows = {"train": 1920, "validation": 250, "test": 250}
    return {
        split: (1 / (1 + np.exp(-random.standard_normal((n, 3), "float32") @ mix))).astype("float32")
        for split, n in rows.items()
    }
''',
    model='''class Sampling(keras.layers.Layer):
    """A latent drawn from its distribution; its mean in evaluation."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, inputs: Any, training: bool = False) -> Any:
        mean, log_variance = inputs
        if not training:
            return mean
        noise = keras.random.normal(keras.ops.shape(mean), dtype=mean.dtype, seed=self.seed_generator)
        return mean + keras.ops.exp(log_variance / 2) * noise


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Vectors (batch, 12) -> their reconstructions, and mean and log-variance of the latents."""
    layers, floatx = keras.layers, keras.config.floatx()
    inputs = keras.Input((12,))
    x = layers.Dense(64, activation="relu")(inputs)
    mean = layers.Dense(task.latent, dtype=floatx, name="mean")(x)
    log_variance = layers.Dense(task.latent, dtype=floatx, name="log_variance")(x)
    latents = Sampling(name="sampling")([mean, log_variance])
    x = layers.Dense(64, activation="relu")(latents)
    outputs = layers.Dense(12, activation="sigmoid", dtype=floatx, name="reconstruction")(x)
    return keras.Model(inputs, {"reconstruction": outputs, "mean": mean, "log_variance": log_variance})
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Of the reconstruction, and the divergence of the latents from a standard normal."""

    def divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.exp(log_variance) + tf.square(mean) - 1 - log_variance, axis=1) / 2

    return {"reconstruction": keras.losses.BinaryCrossentropy(reduction="none"), "kl": divergence}
''',
    metrics=blank.create_metrics(
        '{"mse": keras.metrics.MeanSquaredError()}', "Error of the reconstruction."
    ),
    steps="""def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    vectors, weights = batch
    found = run.model(vectors, training=training)
    reconstruction = 12 * run.losses["reconstruction"](vectors, found["reconstruction"])  # (batch,)
    kl = run.losses["kl"](found["mean"], found["log_variance"])  # (batch,)
    beta = tf.ones((), kl.dtype)
    if training:  # annealed
        beta = tf.minimum(beta, tf.cast(replica.step, kl.dtype) / 200)
    run.metrics["mse"].update_state(vectors, found["reconstruction"], weights)
    average = tf.nn.compute_average_loss(kl, sample_weight=weights, global_batch_size=replica.global_count)
    return {"main": compute_loss(reconstruction + beta * kl, weights, run.model, replica), "kl": average}
""",
    terms='"kl",',
)

# ---------------------------------------------------------------- diffusion
DIFFUSION = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points (n, 2) of a ring; in evaluation with fixed noise and times."""
    random = np.random.default_rng(0)
    datasets: dict[str, Any] = {}
    for split, rows in (("train", 3840), ("validation", 500), ("test", 500)):
        angle = random.uniform(0, 2 * np.pi, rows)
        points = np.stack([np.cos(angle), np.sin(angle)], 1) + random.normal(0, 0.05, (rows, 2))
        datasets[split] = {"points": points.astype("float32")}
        if split != "train":
            datasets[split]["noise"] = random.standard_normal((rows, 2), "float32")
            datasets[split]["time"] = random.uniform(0, 1, (rows, 1)).astype("float32")
    return datasets
''',
    augment='''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Draws the noise and the time of each point."""

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, weights = batch
        rows, dtype = inputs["points"].shape[0], inputs["points"].dtype
        of_noise, of_time = tf.unstack(tf.random.split(seed, 2))
        noise = tf.random.stateless_normal((rows, 2), of_noise, dtype=dtype)
        time = tf.random.stateless_uniform((rows, 1), of_time, dtype=dtype)
        return inputs | {"noise": noise, "time": time}, weights

    return augment
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Noisy points (batch, 2) and times (batch, 1) -> the noise in them (batch, 2)."""
    points, time = keras.Input((2,)), keras.Input((1,))
    x = keras.layers.Concatenate()([points, time, keras.ops.sin(6.3 * time), keras.ops.cos(6.3 * time)])
    for _ in range(3):
        x = keras.layers.Dense(64, activation="silu")(x)
    return keras.Model([points, time], keras.layers.Dense(2, dtype=keras.config.floatx())(x))
''',
    losses=blank.create_losses('keras.losses.MeanSquaredError(reduction="none")', "Of the noise."),
    metrics=blank.create_metrics(
        '{"mae": keras.metrics.MeanAbsoluteError()}', "How much of the noise is found."
    ),
    steps="""def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, weights = batch
    angle = inputs["time"] * 1.5707963  # cosine schedule
    noisy = tf.cos(angle) * inputs["points"] + tf.sin(angle) * inputs["noise"]
    found = run.model([noisy, inputs["time"]], training=training)
    run.metrics["mae"].update_state(inputs["noise"], found, weights)
    return {"main": compute_loss(run.losses["main"](inputs["noise"], found), weights, run.model, replica)}
""",
)

# ---------------------------------------------------------------- policy from logged bandit data
BANDIT = _task(
    data='''ACTIONS, BUCKETS = 4, 256


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Logged contexts and users, actions and rewards; weights are inverse propensities."""
    random = np.random.default_rng(0)
    best = random.standard_normal((8, ACTIONS))
    logging = random.standard_normal((8, ACTIONS)) / 4
    taste = random.standard_normal((50, ACTIONS))
    datasets = {}
    for split, rows in (("train", 3840), ("validation", 500), ("test", 500)):
        context = random.standard_normal((rows, 8), "float32")
        user = random.integers(0, 50, rows)
        policy = np.exp(context @ logging)
        policy /= policy.sum(axis=1, keepdims=True)
        action = (policy.cumsum(axis=1) > random.uniform(size=(rows, 1))).argmax(axis=1)
        value = 1 / (1 + np.exp(-(context @ best + taste[user])))
        all_rows = np.arange(rows)
        reward = (random.uniform(size=rows) < value[all_rows, action]).astype("float32")
        weights = np.minimum(1 / policy[all_rows, action], 20).astype("float32")
        inputs = {"context": context, "user": np.array([_bucket(f"user-{u}") for u in user], "int32")}
        datasets[split] = (inputs, {"action": action.astype("int32"), "reward": reward}, weights)
    return datasets


def _bucket(name: str) -> int:
    """The row of an embedding for a name: the hashing trick."""
    return zlib.crc32(name.encode()) % BUCKETS
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Context and user -> logits of the actions."""
    context, user = keras.Input((8,), name="context"), keras.Input((), dtype="int32", name="user")
    x = keras.layers.Concatenate()([context, keras.layers.Embedding(256, 8)(user)])
    x = keras.layers.Dense(64, activation="relu")(x)
    logits = keras.layers.Dense(4, dtype=keras.config.floatx())(x)
    return keras.Model({"context": context, "user": user}, logits)
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Minus the reward times the probability of the logged action."""

    return {"main": lambda reward, chosen: -reward * chosen}
''',
    metrics=blank.create_metrics(
        '{"value": keras.metrics.Mean()}',
        "The estimated reward of the policy (self-normalized, Swaminathan & Joachims, 2015).",
    ),
    steps="""def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    probabilities = tf.nn.softmax(run.model(inputs, training=training))
    chosen = tf.gather(probabilities, labels["action"], axis=1, batch_dims=1)  # (batch,)
    per_example = run.losses["main"](labels["reward"], chosen)  # (batch,)
    run.metrics["value"].update_state(labels["reward"], weights * chosen)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
) + (before("data.py", "from collections.abc", "import zlib\n"),)

# ---------------------------------------------------------------- sets of different sizes
SETS = _task(
    data='''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Sets of 3 to 12 vectors, zeros after them; the class is the largest feature of the mean."""
    random = np.random.default_rng(0)
    datasets = {}
    for split, rows in (("train", 1920), ("validation", 250), ("test", 250)):
        sizes = random.integers(3, 13, rows)
        mask = np.arange(12) < sizes[:, np.newaxis]
        elements = random.standard_normal((rows, 12, 4), "float32") * mask[..., np.newaxis]
        labels = (elements.sum(axis=1) / sizes[:, np.newaxis]).argmax(axis=1).astype("int32")
        datasets[split] = ({"elements": elements.astype("float32"), "mask": mask}, labels)
    return datasets
''',
    model='''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Elements (batch, 12, 4) and mask (batch, 12) -> logits (batch, 4); the order doesn't matter."""
    layers, ops = keras.layers, keras.ops
    elements = keras.Input((12, 4), name="elements")
    mask = keras.Input((12,), dtype="bool", name="mask")
    x = layers.Dense(32, activation="relu")(elements)
    y = layers.MultiHeadAttention(4, 8)(x, x, attention_mask=mask[:, None, :])
    x = layers.LayerNormalization()(x + y)
    is_there = ops.cast(mask, x.dtype)[..., None]
    x = ops.sum(x * is_there, axis=1) / ops.sum(is_there, axis=1)
    logits = layers.Dense(4, dtype=keras.config.floatx())(layers.Dense(32, activation="relu")(x))
    return keras.Model({"elements": elements, "mask": mask}, logits)
''',
    losses=blank.create_losses(at.SPARSE, "Cross-entropy."),
    metrics=blank.create_metrics(at.ACCURACY, "Accuracy."),
    steps="""def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    return {"main": compute_loss(run.losses["main"](labels, logits), weights, run.model, replica)}
""",
)

# ---------------------------------------------------------------- WGAN-GP, in the GAN starter
WGAN = (
    Edit("losses.py", at.DISCRIMINATOR_LOSS, "        return (on_generated - on_real)[:, 0]\n"),
    Edit("losses.py", at.GENERATOR_LOSS, "        return -on_generated[:, 0]\n"),
    Edit(
        "losses.py",
        '    return {"discriminator": discriminator_loss, "generator": generator_loss}\n',
        '''    def penalty(gradients: tf.Tensor) -> tf.Tensor:
        """Low if the critic's slope at each image is 1 (Gulrajani et al., 2017)."""
        slopes = tf.sqrt(tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3]) + 1e-12)  # (batch,)
        return tf.square(slopes - 1)

    return {"discriminator": discriminator_loss, "generator": generator_loss, "penalty": penalty}
''',
    ),
    after(
        "steps.py",
        '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
        """    mix = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), replica.seed, dtype=images.dtype)
    between = tf.stop_gradient(mix * images + (1 - mix) * generated)
    with tf.GradientTape() as tape:
        tape.watch(between)
        on_between = tf.reduce_sum(discriminator(between, training=False))
    per_example += 10 * run.losses["penalty"](tape.gradient(on_between, between))
""",
    ),
    Edit("config.py", "    dropout: float = 0.3", "    dropout: float = 0.0"),
    Edit(
        "optimizer.py", "Adam(schedule, beta_1=0.5)", "Adam(schedule, beta_1=0.0, beta_2=0.9)", "*"
    ),
)

# ---------------------------------------------------------------- spectral normalization, GAN
SPECTRAL = (
    before(
        "model.py",
        "def _create_discriminator(",
        '''class SpectralDense(keras.layers.Layer):
    """A dense layer whose kernel is divided by its largest singular value (power iteration)."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], self.units))
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.u = self.add_weight(
            name="u", shape=(1, self.units), initializer="random_normal", trainable=False
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        ops = keras.ops
        u = ops.cast(self.u, self.compute_dtype)
        kernel = ops.cast(self.kernel, self.compute_dtype)
        constant = ops.stop_gradient(kernel)
        v = ops.normalize(ops.matmul(u, ops.transpose(constant)))  # (1, inputs)
        u = ops.normalize(ops.matmul(v, constant))  # (1, units)
        if training:
            self.u.assign(ops.cast(u, self.u.dtype))
        sigma = ops.sum(ops.matmul(v, kernel) * u)
        return ops.matmul(inputs, kernel / sigma) + self.bias


''',
    ),
    after(
        "model.py",
        "    x = layers.Flatten()(x)\n",
        '    x = layers.Activation("leaky_relu")(SpectralDense(64)(x))\n',
    ),
)

# ---------------------------------------------------------------- language model: perplexity
PERPLEXITY = (
    before(
        "metrics.py",
        "class ExactMatch(",
        '''class Perplexity(keras.metrics.Mean):
    """The exponential of the mean cross-entropy over all tokens of answers."""

    def update_state(self, per_token: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add the losses (batch, T) of tokens with weights (batch, T)."""
        super().update_state(per_token, sample_weight)

    def result(self) -> tf.Tensor:
        """A scalar."""
        return tf.exp(super().result())


''',
    ),
    after(
        "metrics.py",
        '        "exact_match": ExactMatch(),\n',
        '        "perplexity": Perplexity(),\n',
    ),
    *(
        after(
            "steps.py",
            '    per_token = run.losses["main"](targets, logits)  # (batch, T)\n',
            '    run.metrics["perplexity"].update_state(per_token, weights)\n',
            step,
        )
        for step in ("train_step", "validation_step", "test_step")
    ),
)

# ---------------------------------------------------------------- sets from a generator
STREAM_OF_SETS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Sets of 3 to 12 vectors, made while they are read; the class is the largest feature of the mean."""
    return {"train": _stream(0, 1920), "validation": _stream(1, 250), "test": _stream(2, 250)}


def _stream(seed: int, rows: int) -> tf.data.Dataset:
    def examples():
        random = np.random.default_rng(seed)
        for _ in range(rows):
            mask = np.arange(12) < random.integers(3, 13)
            elements = random.standard_normal((12, 4), "float32") * mask[:, np.newaxis]
            inputs = {"elements": elements.astype("float32"), "mask": mask}
            yield inputs, elements.sum(axis=0).argmax()

    inputs = {"elements": tf.TensorSpec((12, 4)), "mask": tf.TensorSpec((12,), tf.bool)}
    signature = (inputs, tf.TensorSpec((), tf.int32))
    dataset = tf.data.Dataset.from_generator(examples, output_signature=signature)
    return dataset.apply(tf.data.experimental.assert_cardinality(rows))
'''
GENERATED = (*SETS, Edit("data.py", "", STREAM_OF_SETS, "create_datasets"))

TASKS: tuple[Change, ...] = (
    Change(
        name="retrieval by two towers, negatives of the global batch",
        starter="blank",
        edits=RETRIEVAL,
    ),
    Change(name="mean teacher with few labels", starter="blank", edits=MEAN_TEACHER),
    Change(name="forecast from windows", starter="blank", edits=FORECAST),
    Change(name="variational autoencoder with annealed divergence", starter="blank", edits=VAE),
    Change(name="diffusion of points", starter="blank", edits=DIFFUSION),
    Change(name="policy from logged bandit data", starter="blank", edits=BANDIT),
    Change(name="attention over sets with a mask", starter="blank", edits=SETS),
    Change(name="sets from a generator", starter="blank", edits=GENERATED),
    Change(name="WGAN-GP", starter="gan", edits=WGAN),
    Change(name="spectral normalization of its own", starter="gan", edits=SPECTRAL),
    Change(name="perplexity of a language model", starter="language_model", edits=PERPLEXITY),
)

VIEWS = '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A view for the student and another one for the teacher."""

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, labels, weights = batch
        views = {
            name: points + 0.3 * tf.random.stateless_normal(points.shape, seed, dtype=points.dtype)
            for name, points in inputs.items()
        }
        return views, labels, weights

    return augment
'''
AVERAGE = """def _average(decay: float):
    shadow: list[Any] = []

    def average(event: Event) -> None:
        now = event.run.models["student"].get_weights()
        if not shadow:
            shadow.extend(now)
        pairs = zip(shadow, now, strict=True)
        shadow[:] = [decay * t + (1 - decay) * s if t.dtype.kind == "f" else t for t, s in pairs]
        event.run.models["teacher"].set_weights(shadow)

    return average
"""
CENTER = '''class RunningCenter(keras.layers.Layer):
    """Subtracts a moving average of its inputs."""

    def build(self, shape: Any) -> None:
        self.center = self.add_weight(
            name="center", shape=(shape[-1],), initializer="zeros", trainable=False
        )

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            mean = keras.ops.mean(inputs, axis=0)
            self.center.assign(0.9 * self.center + 0.1 * keras.ops.cast(mean, self.center.dtype))
        return inputs - keras.ops.cast(self.center, inputs.dtype)


'''
CENTRALIZE = '''def process_gradients(gradients, variables):
    """Gradient centralization (Yong et al., 2020): the mean of all axes but the last is removed."""
    return [
        g - tf.reduce_mean(g, axis=list(range(len(g.shape) - 1)), keepdims=True) for g in gradients
    ]
'''
ONE_DATASET = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Sets of 3 to 12 vectors, zeros after them; the class is the largest feature of the mean."""
    random = np.random.default_rng(0)
    rows = 2420
    sizes = random.integers(3, 13, rows)
    mask = np.arange(12) < sizes[:, np.newaxis]
    elements = (random.standard_normal((rows, 12, 4)) * mask[..., np.newaxis]).astype("float32")
    labels = (elements.sum(axis=1) / sizes[:, np.newaxis]).argmax(axis=1).astype("int32")
    examples = tf.data.Dataset.from_tensor_slices(({"elements": elements, "mask": mask}, labels))
    examples = examples.shuffle(rows, seed=0)
    return {
        "train": examples.skip(500),
        "validation": examples.take(250),
        "test": examples.skip(250).take(250),
    }
'''
QUANTIZED = '''class Codebook(keras.layers.Layer):
    """The entry of a codebook that is nearest to each vector."""

    def __init__(self, entries: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.entries = entries

    def build(self, shape: Any) -> None:
        self.codes = self.add_weight(name="codes", shape=(self.entries, shape[-1]), initializer="normal")

    def call(self, inputs: Any) -> Any:
        differences = inputs[:, None] - self.codes  # (batch, entries, latent)
        nearest = keras.ops.argmin(keras.ops.sum(differences**2, axis=-1), axis=-1)
        return keras.ops.take(self.codes, nearest, axis=0)


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Vectors (batch, 12) -> their reconstructions, by way of one of 64 codes."""
    layers = keras.layers
    inputs = keras.Input((12,))
    x = layers.Dense(64, activation="relu", name="encoder_1")(inputs)
    x = Codebook(64, name="codebook")(layers.Dense(task.latent, name="encoder_2")(x))
    x = layers.Dense(64, activation="relu", name="decoder_1")(x)
    return keras.Model(inputs, layers.Dense(12, activation="sigmoid", name="decoder_2")(x))
'''
QUANTIZED_STEP = """def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    vectors, weights = batch
    found = run.model(vectors, training=training)
    per_example = 12 * run.losses["reconstruction"](vectors, found)  # (batch,)
    run.metrics["mse"].update_state(vectors, found, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
ANNEALED = "    if training:  # annealed\n        beta = tf.minimum(beta, tf.cast(replica.step, kl.dtype) / 200)\n"
IN_BATCH = """    scores = tf.matmul(query, own, transpose_b=True)  # each query with the items of the batch
    place = tf.range(item.shape[0])
    for metric in run.metrics.values():
        metric.update_state(place, tf.cast(scores, tf.float32), weights)
"""
CATALOGUE = """    catalogue = tf.cast(run.adapted["catalogue"], keras.config.floatx())
    scores = tf.matmul(query, run.models["item"](catalogue, training=False), transpose_b=True)
    for metric in run.metrics.values():
        metric.update_state(item, tf.cast(scores, tf.float32), weights)
"""

FAULTS: tuple[Fault, ...] = (
    # Two towers.
    Fault(
        name="row numbers of this replica as labels among the items of all",
        starter="blank",
        edits=(
            *RETRIEVAL,
            Edit(
                "steps.py", "place = replica.index * item.shape[0] + tf.range(", "place = tf.range("
            ),
        ),
        kind=kinds.LABELS,
        cause="the items of all replicas are gathered, but each replica takes the first rows as its "
        "own: all replicas but the first learn to match queries with other queries' items",
        file="steps.py",
        named=r"(?i)replica|all_gather|offset",
    ),
    Fault(
        name="padding rows as negatives",
        starter="blank",
        edits=(
            *RETRIEVAL,
            Edit(
                "steps.py",
                "((item[:, tf.newaxis] == ids) | (there == 0))",
                "(item[:, tf.newaxis] == ids)",
            ),
        ),
        flags=("--last-batch", "pad", "--global-batch-size", "144"),
        kind=kinds.WEIGHTS,
        cause="the items of rows that only fill up a batch are negatives of the real queries, which "
        "changes the loss of the last batch, in training and in evaluation",
        file="steps.py",
        named=r"(?i)padd|fill|weights? (of )?(0|zero)|zero weight|aren't there|not there",
    ),
    Fault(
        name="interacting examples not declared",
        starter="blank",
        edits=(
            *RETRIEVAL,
            Edit("steps.py", "EXAMPLES_INTERACT = True", "EXAMPLES_INTERACT = False"),
        ),
        flags=("--accumulate", "2"),
        kind=kinds.ACCUMULATION,
        cause="negatives come from the batch and EXAMPLES_INTERACT says they don't, so --accumulate "
        "silently trains with half of the negatives",
        file="steps.py",
        named=r"(?i)interact|micro-?batch|accumulat|others (of|in) (its|the) batch",
    ),
    Fault(
        name="recall among the items of the replica's part of a batch",
        starter="blank",
        edits=(*RETRIEVAL, Edit("steps.py", CATALOGUE, IN_BATCH)),
        kind=kinds.METRICS,
        cause="the recall that selects the best weights is computed among this replica's rows, padding "
        "and duplicates included, so it rises with more replicas or smaller batches",
        file="steps.py",
        named=r"(?i)recall[^.]*(replica|batch|row|padd|example)|(metric|replica|batch|padd)[^.]*recall",
    ),
    # Mean teacher.
    Fault(
        name="one seed for both views",
        starter="blank",
        edits=(
            *MEAN_TEACHER,
            Edit(
                "data.py",
                "(points, labels)",
                '({"student": points, "teacher": points}, labels)',
                "create_datasets",
            ),
            Edit("data.py", "", VIEWS, "create_augment"),
            Edit("model.py", "        x = keras.layers.GaussianNoise(0.3)(x)\n", ""),
            Edit(
                "steps.py",
                'run.models["student"](points,',
                'run.models["student"](points["student"],',
            ),
            Edit(
                "steps.py",
                'run.models["teacher"](points,',
                'run.models["teacher"](points["teacher"],',
            ),
        ),
        kind=kinds.AUGMENTATION,
        cause="both views are drawn with the same seed and so are the same, and the student has no "
        "noise to become invariant to",
        file="data.py",
        named=r"(?i)same (seed|noise|random|numbers|values|view)|identical|equal|seed[^.]*(twice|both|several|again|re-?used)|(twice|again|both)[^.]*seed",
    ),
    Fault(
        name="average of the weights in a list",
        starter="blank",
        edits=(*MEAN_TEACHER, Edit("callbacks.py", "", AVERAGE, "_average")),
        kind=kinds.MODEL,
        cause="the moving average lives in a Python list that no checkpoint holds: a resumed run "
        "overwrites the teacher with the student and starts averaging anew",
        file="callbacks.py",
        named=r"(?i)resum|checkpoint|get_state|restor|continu|interrupt",
    ),
    # Forecasts.
    Fault(
        name="the window holds its label",
        starter="blank",
        edits=(
            *FORECAST,
            Edit(
                "data.py", "windows[:, :-1, np.newaxis].copy()", "windows[:, 1:, np.newaxis].copy()"
            ),
        ),
        kind=kinds.LEAKS,
        cause="windows are one step late: the value to be forecast is the last of the inputs, so the "
        "model copies it and its error means nothing",
        file="data.py",
        named=r"(?i)label|target|leak|input[^.]*(hold|contain|include|same)|cop(y|ies)",
    ),
    Fault(
        name="gradient centralization of biases",
        starter="blank",
        edits=(*FORECAST, Edit("optimizer.py", "", CENTRALIZE, "process_gradients")),
        kind=kinds.OPTIMIZER,
        cause="over no axes the mean of a bias's gradient is the gradient itself, so what remains is 0 "
        "and no bias ever trains",
        file="optimizer.py",
        named=r"(?i)bias|process_gradients|never (change|train|move)|(zero|0|no) gradient|gradients?[^.]*(zero|\b0\b)|do(es)?n't (train|change)",
    ),
    # Sets.
    Fault(
        name="splits of a dataset that is shuffled anew each time",
        starter="blank",
        edits=(*SETS, Edit("data.py", "", ONE_DATASET, "create_datasets")),
        kind=kinds.LEAKS,
        cause="shuffle has another order each time it is read, so take and skip give other examples: "
        "those of validation and test are trained on in other epochs",
        file="data.py",
        named=r"(?i)shuffl|leak|overlap|same examples|in (both|several)|(also|too) in|other examples|(each|every|second) (time|read|pass)",
    ),
    Fault(
        name="attention mask along the queries",
        starter="blank",
        edits=(
            *SETS,
            Edit("model.py", "attention_mask=mask[:, None, :]", "attention_mask=mask[:, :, None]"),
        ),
        kind=kinds.MODEL,
        cause="the mask hides the queries of padding and not its keys: real elements attend to padding, "
        "so what a set gives depends on what pads it",
        file="model.py",
        named=r"(?i)padd|mask",
    ),
    Fault(
        name="metrics of the first replica only",
        starter="blank",
        edits=(
            *SETS,
            Edit(
                "steps.py",
                '    run.metrics["accuracy"].update_state(labels, logits, weights)\n',
                "    # Once, not on every replica.\n"
                "    first = tf.cast(replica.index == 0, weights.dtype)\n"
                '    run.metrics["accuracy"].update_state(labels, logits, first * weights)\n',
            ),
        ),
        kind=kinds.METRICS,
        cause="replicas see different rows and their metrics are summed: with the others' weights set "
        "to 0 the accuracy is that of a part of the data",
        file="steps.py",
        named=r"(?i)(accuracy|metric)[^.]*replica|replica[^.]*(accuracy|metric)",
    ),
    Fault(
        name="a generator that goes on where the last epoch ended",
        starter="blank",
        edits=(
            *GENERATED,
            Edit(
                "data.py",
                "    def examples():\n        random = np.random.default_rng(seed)\n",
                "    random = np.random.default_rng(seed)\n\n    def examples():\n",
            ),
        ),
        kind=kinds.STREAMS,
        cause="the random generator is made once and outlives an epoch: each validation is of other "
        "examples, and a resumed run reads others than one that goes on",
        file="data.py",
        named=r"(?i)generator|(each|every|second|another) (time|read|pass|validation)|other examples|not the same|differ|resum",
    ),
    # Variational autoencoder and its like.
    Fault(
        name="a moving average of each replica's own",
        starter="blank",
        edits=(
            *VAE,
            before("model.py", "class Sampling(", CENTER),
            Edit(
                "model.py",
                'layers.Dense(64, activation="relu")(inputs)',
                'layers.Dense(64, activation="relu")(RunningCenter(name="running_center")(inputs))',
            ),
        ),
        kind=kinds.MODEL,
        cause="each replica averages its own rows, padding included, and nothing is summed: replicas "
        "hold different centers, of which a checkpoint keeps one",
        file="model.py",
        named=r"(?i)center|replicas?[^.]*(state|moving|statistic|variable|differ)|(state|moving|statistic|variable)[^.]*replica|synchron",
    ),
    Fault(
        name="noise of an integer seed",
        starter="blank",
        edits=(
            *VAE,
            Edit(
                "model.py",
                "    def __init__(self, **kwargs: Any) -> None:\n        super().__init__(**kwargs)\n"
                "        self.seed_generator = keras.random.SeedGenerator(1)\n\n",
                "",
            ),
            Edit("model.py", "seed=self.seed_generator", "seed=1337"),
        ),
        kind=kinds.MODEL,
        cause="with an integer keras.random draws the same noise in every step and on every replica, "
        "so the decoder learns that noise",
        file="model.py",
        named=r"(?i)same (noise|random|numbers|values)|seed|noise",
    ),
    Fault(
        name="divergence added in a layer as a sum over the rows of a replica",
        starter="blank",
        edits=(
            *VAE,
            before(
                "model.py",
                "        if not training:\n            return mean\n",
                "        kl = keras.ops.exp(log_variance) + mean**2 - 1 - log_variance\n"
                "        self.add_loss(0.005 * keras.ops.sum(kl))\n",
            ),
            Edit(
                "steps.py",
                "compute_loss(reconstruction + beta * kl, ",
                "compute_loss(reconstruction, ",
            ),
            Edit("steps.py", "    beta = tf.ones((), kl.dtype)\n" + ANNEALED, ""),
        ),
        kind=kinds.REGULARIZATION,
        cause="what add_loss gets is a sum over the rows of a replica, padding included, and is divided "
        "by the replicas: half as strong on two replicas, and proportional to the batch size",
        file="model.py",
        named=r"(?i)add_loss|regulari[sz]|model\.losses|replica|padd",
    ),
    Fault(
        name="annealing by a Python number",
        starter="blank",
        edits=(
            *VAE,
            before(
                "steps.py", "def _step(", 'BETA = {"value": 0.0}  # a callback raises it to 1\n\n\n'
            ),
            Edit("steps.py", ANNEALED, '    if training:\n        beta = BETA["value"] * beta\n'),
            Edit("callbacks.py", "from .next_todo import TodoError\n", "from .steps import BETA\n"),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_steps(10, _anneal)]\n\n\n"
                'def _anneal(event: Event) -> None:\n    BETA["value"] = min(1.0, event.step / 200)\n',
                "create_callbacks",
            ),
        ),
        kind=kinds.MODEL,
        cause="the number is a constant of the graph since the first trace: the divergence has weight 0 "
        "in the whole run, whatever the callback sets",
        file="steps.py",
        named=r"(?i)trace|graph|constant|python|no effect|BETA",
    ),
    Fault(
        name="annealing by a variable that no checkpoint holds",
        starter="blank",
        edits=(
            *VAE,
            before(
                "losses.py",
                '    return {"reconstruction"',
                "    divergence.beta = tf.Variable(0.0, trainable=False)  # a callback raises it to 1\n",
            ),
            Edit(
                "steps.py",
                ANNEALED,
                '    if training:\n        beta = tf.cast(run.losses["kl"].beta, kl.dtype)\n',
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_steps(10, _anneal)]\n\n\n"
                "def _anneal(event: Event) -> None:\n"
                '    beta = event.run.losses["kl"].beta\n'
                "    beta.assign(min(1.0, float(tf.convert_to_tensor(beta)) + 0.05))\n",
                "create_callbacks",
            ),
            before("callbacks.py", "from ..engine.callbacks", "import tensorflow as tf\n\n"),
        ),
        kind=kinds.MODEL,
        cause="the variable belongs to no model and is in no checkpoint: a resumed run anneals from 0 "
        "once more",
        file="losses.py",
        named=r"(?i)resum|checkpoint|restor|not saved|isn't saved",
    ),
    Fault(
        name="cross-entropy with labels below zero",
        starter="blank",
        edits=(
            *VAE,
            Edit("data.py", "split: (1 / (1 + np.exp(", "split: (2 / (1 + np.exp("),
            Edit("data.py", '@ mix))).astype("float32")', '@ mix)) - 1).astype("float32")'),
        ),
        kind=kinds.INPUTS,
        cause="vectors are scaled to [-1, 1] while the decoder ends with a sigmoid and binary "
        "cross-entropy, which has no minimum for labels below 0",
        file="data.py",
        named=r"(?i)range|\[0, 1\]|0 (to|and|\.\.) 1|negative|below (0|zero)|less than (0|zero)|sigmoid|cross-?entropy|outside",
    ),
    Fault(
        name="codebook without a way for gradients",
        starter="blank",
        edits=(
            *VAE,
            Edit("model.py", "", QUANTIZED, "create_model"),
            Edit("steps.py", "", QUANTIZED_STEP, "_step"),
            Edit("steps.py", '("kl",)', "()"),
        ),
        kind=kinds.MODEL,
        cause="argmin has no gradient and there is no straight-through estimator: the encoder keeps its "
        "initial weights",
        file="model.py",
        named=r"(?i)encoder|argmin|straight|(zero|0|no) gradient|gradients?[^.]*(zero|\b0\b|reach)|never (change|train)|do(es)?n't (train|change)",
    ),
    # Bandit.
    Fault(
        name="advantages normalized by the rows of a replica",
        starter="blank",
        edits=(
            *BANDIT,
            Edit(
                "steps.py",
                '    per_example = run.losses["main"](labels["reward"], chosen)  # (batch,)\n',
                '    reward = labels["reward"]\n'
                "    advantage = (reward - tf.reduce_mean(reward)) / (tf.math.reduce_std(reward) + 1e-6)\n"
                '    per_example = run.losses["main"](advantage, chosen)  # (batch,)\n',
            ),
        ),
        kind=kinds.LOSS_SCALING,
        cause="mean and deviation are those of a replica's rows, padding included: another loss on "
        "another number of replicas, with --accumulate, and in a short batch",
        file="steps.py",
        named=r"(?i)replica|interact|padd|others (of|in)|micro-?batch",
    ),
    Fault(
        name="inverse propensities used twice",
        starter="blank",
        edits=(
            *BANDIT,
            Edit(
                "steps.py",
                '(labels["reward"], chosen)  # (batch,)\n',
                '(labels["reward"], chosen) * weights  # by inverse propensity\n',
            ),
        ),
        kind=kinds.WEIGHTS,
        cause="compute_loss multiplies by the weights again, so that examples count by the square of "
        "the inverse propensity and the estimate is biased",
        file="steps.py",
        named=r"(?i)twice|squar|doubl|again|weight[^.]*(proportion|linear|times|more than)",
    ),
    Fault(
        name="Python's hash of names",
        starter="blank",
        edits=(
            *BANDIT,
            Edit("data.py", "zlib.crc32(name.encode()) % BUCKETS", "hash(name) % BUCKETS"),
        ),
        kind=kinds.INPUTS,
        cause="Python salts the hashes of texts in each process: a resumed run, and predict, look up "
        "other rows of the embedding than those that were trained",
        file="data.py",
        named=r"(?i)hash|process|reproduc|not the same|(each|every|second|another) (time|start|run)",
    ),
    # Language model.
    Fault(
        name="normalization over the length of a line",
        starter="language_model",
        edits=(
            Edit(
                "model.py",
                "    x = layers.LayerNormalization()(x)\n    # Full",
                "    x = layers.GroupNormalization(8)(x)\n    # Full",
            ),
        ),
        kind=kinds.LANGUAGE_MODEL,
        cause="GroupNormalization takes mean and variance over all positions, so a token is predicted "
        "with knowledge of those after it, which are missing when the model writes",
        file="model.py",
        named=r"(?i)later|future|causal|ahead|comes? after|follow|next token|leak",
    ),
    Fault(
        name="perplexity as a mean of batches",
        starter="language_model",
        edits=(
            *PERPLEXITY,
            Edit(
                "metrics.py",
                "        super().update_state(per_token, sample_weight)\n\n"
                '    def result(self) -> tf.Tensor:\n        """A scalar."""\n'
                "        return tf.exp(super().result())\n",
                "        total = tf.reduce_sum(per_token * sample_weight)\n"
                "        mean = tf.math.divide_no_nan(total, tf.reduce_sum(sample_weight))\n"
                "        super().update_state(tf.exp(mean))\n",
            ),
        ),
        kind=kinds.METRICS,
        cause="a mean of the exponentials of batches isn't the exponential of the mean: it depends on "
        "batch size, replicas and padding",
        file="metrics.py",
        named=r"(?i)perplexity[^.]*(batch|replica|cut|padd|row|part|add)|(batch|replica|padd|row|part)[^.]*perplexity",
    ),
    Fault(
        name="the largest perplexity selects the best weights",
        starter="language_model",
        edits=(
            *PERPLEXITY,
            Edit("config.py", '"validation_exact_match"', '"validation_perplexity"'),
        ),
        kind=kinds.EVALUATION,
        cause="--larger-is-better is left as it was for exact matches: the weights with the worst "
        "perplexity are kept and tested",
        file="config.py",
        named=r"(?i)larger.is.better|monitor|best weights|worst",
    ),
    Fault(
        name="the test doesn't update a new metric",
        starter="language_model",
        edits=(
            *PERPLEXITY,
            Edit(
                "steps.py",
                '    run.metrics["perplexity"].update_state(per_token, weights)\n',
                "",
                "test_step",
            ),
        ),
        kind=kinds.EVALUATION,
        cause="the metric was added to the train and validation steps only: the test reports the "
        "perplexity 1 of no token at all",
        file="steps.py",
        named=r"(?i)perplexity[^.]*(test|never|not|n't|no )|test[^.]*(perplexity|metric)",
    ),
    Fault(
        name="a curriculum counted in Python",
        starter="language_model",
        edits=(
            before("steps.py", "# TODO(11)", "CALLS = [0]\n\n\n"),
            after(
                "steps.py",
                "    tokens, targets, weights = batch\n",
                "    CALLS[0] += 1  # longer and longer answers\n"
                "    easy = tf.cumsum(weights, axis=1) <= 4 + CALLS[0] // 20\n"
                "    weights = weights * tf.cast(easy, weights.dtype)\n",
                "train_step",
            ),
        ),
        kind=kinds.LANGUAGE_MODEL,
        cause="Python counts when the step is traced and not when it runs: the curriculum stays at its "
        "first stage and the end of answers is never trained",
        file="steps.py",
        named=r"(?i)trace|python|constant|counter|weights?[^.]*(ignor|no effect|don't)|tokens?[^.]*(ignor|never)|count\b|CALLS",
    ),
    Fault(
        name="gradient noise of each replica's own",
        starter="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    return [g + 0.01 * tf.random.normal(g.shape, dtype=g.dtype) for g in gradients]\n",
                "process_gradients",
            ),
        ),
        kind=kinds.OPTIMIZER,
        cause="the noise is drawn on each replica after the sum, so replicas apply different gradients "
        "and their weights drift apart; and a resumed run draws others",
        file="optimizer.py",
        named=r"(?i)replica|random|noise|stateless|seed|reproduc|resum",
    ),
    # Generative adversarial networks.
    Fault(
        name="gradient penalty of the whole batch",
        starter="gan",
        edits=(
            *WGAN,
            Edit(
                "losses.py",
                "tf.reduce_sum(tf.square(gradients), axis=[1, 2, 3])",
                "tf.reduce_sum(tf.square(gradients))",
            ),
        ),
        kind=kinds.GAN,
        cause="the norm is that of the gradients of all images of a replica together, not of each one: "
        "the slope that is asked for falls with the batch size and rises with the replicas",
        file="losses.py",
        named=r"(?i)replica|interact|others (of|in)|padd|axis|penalty",
    ),
    Fault(
        name="the critic's schedule ends after a third of the run",
        starter="gan",
        edits=(
            *WGAN,
            Edit(
                "steps.py",
                at.GAN_STEPS,
                "TRAIN_STEPS = (discriminator_step, discriminator_step, discriminator_step, generator_step)",
            ),
        ),
        kind=kinds.OPTIMIZER,
        cause="the critic's optimizer makes three updates in each step and its schedule counts updates: "
        "with decay_steps=steps its learning rate is 0 for two thirds of the run",
        file="optimizer.py",
        named=r"(?i)schedule|learning rate|decay|iterations",
    ),
    Fault(
        name="the vector of the power iteration is trainable",
        starter="gan",
        edits=(
            *SPECTRAL,
            Edit(
                "model.py",
                'initializer="random_normal", trainable=False',
                'initializer="random_normal"',
            ),
        ),
        kind=kinds.GAN,
        cause="the vector is a trainable weight: the optimizer moves it, and what the layer assigns in a "
        "step is lost, so the power iteration never proceeds",
        file="model.py",
        named=r"(?i)trainable|\bu\b|assign|power|(write|change)[^.]*(lost|dropped|ignored)",
    ),
)
