"""Faults and correct tasks of an eleventh examiner: masks, GANs and new tasks; blind to `check`."""

from __future__ import annotations

from . import blank, kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before

# ---------------------------------------------------------------- what all blank tasks share

CONFIG = (
    blank.config(
        "    learning_rate: float = 3e-3"
        "  # learning rate at the start; decays to 0 along a cosine\n"
        "    width: int = 32  # units of a hidden layer\n"
    )
    + '''
    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("learning_rate", "width"):
            if not getattr(self, name) > 0:
                flag = f"--{name.replace('_', '-')}"
                raise ValueError(f"{flag} is {getattr(self, name)}; it must be more than 0.")
'''
)
COMPUTE_LOSS = (
    '''def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas.

    Raises:
        ValueError: `per_example` isn't one number per weight.
    """
    if per_example.shape != weights.shape:
        raise ValueError(f"The loss has shape {per_example.shape}, its weights {weights.shape}.")
'''
    + at.AVERAGE
    + at.REGULARIZED
)
NO_AUGMENT = blank.NO_AUGMENT.replace(
    "No augmentation.", "None: training batches are left as they are."
)
NOTHING_ADAPTED = '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


'''
ACCURACY_OF_LOGITS = '{"accuracy": keras.metrics.BinaryAccuracy(threshold=0.0)}'


def _losses(loss: str) -> str:
    """The function of losses.py, for one loss."""
    return blank.create_losses(
        loss, "Losses by name: (labels, predictions) -> one number per example."
    )


def _task(
    *,
    data: str,
    model: str,
    steps: str,
    losses: str = _losses(at.BINARY),
    metrics: str = "{}",
    config: str = CONFIG,
    augment: str = NO_AUGMENT,
    from_data: str = "",
    count: str = blank.COUNT,
    from_losses: str = "compute_loss",
    denominator: str = "replica.global_count",
    terms: str = "",
    interact: bool = False,
) -> blank.Files:
    """The files of a task from what is its own."""
    imports = at.CONFIG_IMPORT + (f"from .data import {from_data}\n" if from_data else "")
    end = blank.STEPS_END.replace("False", str(interact))
    if terms:
        end = end.replace("TERMS: tuple[str, ...] = ()", f'TERMS = ("{terms}",)')
    return {
        "config": config,
        "data": blank.DATA_HEAD.replace("import numpy", "import keras\nimport numpy")
        + data
        + augment,
        "model": blank.MODEL_HEAD.replace(
            "from ..engine.batches import first_examples\n", ""
        ).replace(at.CONFIG_IMPORT, imports)
        + model,
        "losses": blank.LOSSES_HEAD
        + losses
        + "\n\n"
        + count
        + "\n\n"
        + COMPUTE_LOSS.replace("replica.global_count", denominator),
        "optimizer": blank.OPTIMIZER_FILE.replace(
            "As they are.", "One gradient for each of `variables`, the same on every replica."
        ),
        "metrics": blank.metrics_file(
            metrics,
            "Keras metrics by name; they must accept `sample_weight`, which is 0 for padding.",
        ),
        "steps": blank.STEPS_HEAD.replace("import compute_loss", f"import {from_losses}")
        + "Batch = tuple[tf.Tensor, ...]\n\n"
        + steps
        + blank.THREE_STEPS
        + end,
        "callbacks": blank.CALLBACKS.replace(
            '"""None."""', '"""Callbacks, called between steps."""'
        ),
        "pictures": blank.PICTURES.replace(": none", ""),
    }


# ---------------------------------------------------------------- a variational autoencoder

VAE = _task(
    data='''ROWS = {"train": 960, "validation": 250, "test": 250}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, 64) in [0, 1] of one round spot each, flattened."""
    axis = np.arange(8)
    datasets = {}
    for seed, (split, rows) in enumerate(ROWS.items()):
        random = np.random.default_rng(seed)
        x, y = random.uniform(1, 6, (2, rows, 1, 1))
        radius = random.uniform(0.8, 1.8, (rows, 1, 1))
        squares = (axis[:, np.newaxis] - y) ** 2 + (axis - x) ** 2
        images = np.exp(-squares / (2 * radius**2))
        datasets[split] = images.reshape(rows, 64).astype("float32")
    return datasets
''',
    model='''LATENT = 4


@keras.saving.register_keras_serializable("my_experiment")
class Sampling(keras.layers.Layer):
    """Draws from a normal distribution in training, and gives its mean otherwise."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(0)

    def call(self, moments: Any, training: bool | None = None) -> Any:
        """Mean and log variance (batch, LATENT) -> (batch, LATENT)."""
        mean, log_variance = moments
        if not training:
            return mean
        noise = keras.random.normal(
            keras.ops.shape(mean), dtype=self.compute_dtype, seed=self.seed_generator
        )
        return mean + keras.ops.exp(log_variance / 2) * noise


'''
    + NOTHING_ADAPTED
    + '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images (batch, 64) -> logits of the pixels, and the moments of the latents."""
    layers, floatx = keras.layers, keras.config.floatx()
    images = keras.Input((64,), name="images")
    x = layers.Dense(2 * task.width, activation="gelu")(images)
    mean = layers.Dense(LATENT, dtype=floatx, name="mean")(x)
    log_variance = layers.Dense(
        LATENT, dtype=floatx, kernel_initializer="zeros", name="log_variance"
    )(x)
    latents = Sampling(dtype=floatx)([mean, log_variance])
    x = layers.Dense(2 * task.width, activation="gelu")(latents)
    logits = layers.Dense(64, dtype=floatx, name="logits")(x)
    return keras.Model(images, {"logits": logits, "mean": mean, "log_variance": log_variance})
''',
    steps="""WARMUP = 100  # steps in which the weight of the divergence rises from 0 to 1


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    images, weights = batch
    outputs = run.model(images, training=training)
    per_pixel = run.losses["main"](images[..., tf.newaxis], outputs["logits"][..., tf.newaxis])
    reconstruction = tf.reduce_sum(per_pixel, axis=1)  # (batch,)
    mean, log_variance = outputs["mean"], outputs["log_variance"]
    kl = 0.5 * tf.reduce_sum(
        tf.square(mean) + tf.exp(log_variance) - 1 - log_variance, axis=1
    )  # (batch,)
    beta = tf.ones((), kl.dtype)
    if training:
        beta = tf.minimum(beta, tf.cast(replica.step, kl.dtype) / WARMUP)
    return {
        "main": compute_loss(reconstruction + beta * kl, weights, run.model, replica),
        "kl": tf.nn.compute_average_loss(
            kl, sample_weight=weights, global_batch_size=replica.global_count
        ),
    }
""",
    terms="kl",
)

# ---------------------------------------------------------------- contrastive learning

CONTRASTIVE = _task(
    data='''ROWS = {"train": 960, "validation": 240, "test": 200}
CLASSES, SIZE, NOISE = 150, 24, 0.35


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Vectors float32 (n, SIZE); in evaluation pairs of views, the same in every epoch."""
    mixing = np.random.default_rng(9).normal(size=(6, SIZE))
    datasets: dict[str, Any] = {}
    for seed, (split, rows) in enumerate(ROWS.items()):
        random = np.random.default_rng(seed)
        x = np.tanh(random.normal(size=(rows, 6)) @ mixing)
        views = [x + NOISE * random.normal(size=x.shape) for _ in range(2)]
        first, second = (view.astype("float32") for view in views)
        datasets[split] = x.astype("float32") if split == "train" else (first, second)
    return datasets
''',
    augment='''

def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Makes two views of each vector."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        x, weights = batch
        first = x + _noise(x, tf.stack([seed[0], 2 * seed[1]]))
        second = x + _noise(x, tf.stack([seed[0], 2 * seed[1] + 1]))
        return first, second, weights

    return augment


def _noise(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    return tf.random.stateless_normal(x.shape, seed, stddev=NOISE, dtype=x.dtype)
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """The scale of each input."""
    return {"variance": np.var(datasets["train"], axis=0) + 0.1}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Vectors (batch, n) -> unit vectors (batch, 8)."""
    layers = keras.layers
    variance = adapted["variance"]
    vectors = keras.Input((len(variance),), name="vectors")
    x = layers.Normalization(mean=0.0 * variance, variance=variance)(vectors)
    x = layers.Dense(2 * task.width, activation="gelu")(x)
    x = layers.Dense(8, dtype=keras.config.floatx())(x)
    return keras.Model(vectors, layers.UnitNormalization(dtype=keras.config.floatx())(x))
''',
    metrics='{"retrieval": keras.metrics.SparseCategoricalAccuracy()}',
    steps="""TEMPERATURE = 0.2


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    first, second, weights = batch
    a = run.model(first, training=training)  # (batch, 8)
    b = run.model(second, training=training)
    there = replica.all_gather(weights) > 0  # (global batch,); padding is no negative
    partners = replica.index * a.shape[0] + tf.range(a.shape[0])  # the row of each in all_gather
    losses = []
    for queries, keys in ((a, b), (b, a)):
        similarities = tf.matmul(queries, replica.all_gather(keys), transpose_b=True)
        logits = tf.where(there, similarities / TEMPERATURE, -1e4)  # (batch, global batch)
        losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(partners, logits))
    run.metrics["retrieval"].update_state(partners, logits, weights)
    per_example = (losses[0] + losses[1]) / 2
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
    interact=True,
)

# ---------------------------------------------------------------- detection on a grid

DETECTION = _task(
    data='''ROWS = {"train": 960, "validation": 200, "test": 200}
CELLS, CELL = 4, 4  # along a side; pixels along a side of a cell


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images (n, 16, 16, 1) of 0 to 3 squares; for each cell whether the center of one is in it.

    The box of such a cell is the place of the center in it, from 0 to 1, and half the side in cells.
    """
    return {split: _draw(rows, seed) for seed, (split, rows) in enumerate(ROWS.items())}


def _draw(rows: int, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    random = np.random.default_rng(seed)
    images = 0.1 * random.normal(size=(rows, 16, 16, 1))
    there = np.zeros((rows, CELLS, CELLS))
    boxes = np.zeros((rows, CELLS, CELLS, 3))
    for image, cells, box in zip(images, there, boxes, strict=True):
        for _ in range(random.integers(4)):
            half = int(random.integers(1, 3))
            y, x = random.integers(half, 16 - half, size=2)
            row, column = y // CELL, x // CELL
            if cells[row, column]:
                continue
            image[y - half : y + half + 1, x - half : x + half + 1] += 0.8
            cells[row, column] = 1
            box[row, column] = (y % CELL) / CELL, (x % CELL) / CELL, half / CELL
    labels = {"there": there.astype("float32"), "box": boxes.astype("float32")}
    return images.astype("float32"), labels
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How often there is something in a cell."""
    return {"frequency": datasets["train"][1]["there"].mean()}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images (batch, 16, 16, 1) -> logits (batch, 4, 4, 1) and boxes (batch, 4, 4, 3)."""
    layers, floatx = keras.layers, keras.config.floatx()
    frequency = float(adapted["frequency"])
    images = keras.Input((16, 16, 1), name="images")
    x = layers.Conv2D(task.width, 3, padding="same", activation="swish")(images)
    x = layers.Conv2D(task.width, 4, strides=2, padding="same", activation="swish")(x)
    x = layers.Conv2D(task.width, 4, strides=2, padding="same", activation="swish")(x)
    x = layers.GroupNormalization(4)(x)
    bias = keras.initializers.Constant(float(np.log(frequency / (1 - frequency))))
    there = layers.Conv2D(1, 1, bias_initializer=bias, dtype=floatx, name="there")(x)
    box = layers.Conv2D(3, 3, padding="same", dtype=floatx, name="box")(x)
    return keras.Model(images, {"there": there, "box": box})
''',
    losses='''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    return {
        "there": keras.losses.BinaryCrossentropy(from_logits=True, reduction="none"),
        "box": keras.losses.Huber(0.2, reduction="none"),
    }
''',
    count='''def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many examples count, and how many cells of them have a box."""
    _, labels, weights = batch
    return {
        "main": tf.math.count_nonzero(weights, dtype=tf.int32),
        "box": tf.math.count_nonzero(cells_with_box(labels, weights), dtype=tf.int32),
    }


def cells_with_box(labels: dict[str, tf.Tensor], weights: tf.Tensor) -> tf.Tensor:
    """The weight of each cell in the loss of boxes, (batch, 4, 4)."""
    return labels["there"] * weights[:, tf.newaxis, tf.newaxis]
''',
    denominator='replica.global_count["main"]',
    metrics="""{
        "found": keras.metrics.Recall(),
        "box_error": keras.metrics.MeanAbsoluteError(),
    }""",
    from_losses="cells_with_box, compute_loss",
    steps="""BOXES = 10.0  # weight of the loss of boxes


def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    images, labels, weights = batch
    outputs = run.model(images, training=training)
    there = labels["there"][..., tf.newaxis]  # (batch, 4, 4, 1)
    per_cell = run.losses["there"](there, outputs["there"])  # (batch, 4, 4)
    main = compute_loss(tf.reduce_mean(per_cell, axis=[1, 2]), weights, run.model, replica)
    per_box = run.losses["box"](labels["box"], outputs["box"])  # (batch, 4, 4)
    cells = cells_with_box(labels, weights)  # (batch, 4, 4)
    boxes = tf.reduce_sum(cells * per_box) / tf.cast(replica.global_count["box"], per_box.dtype)
    each = tf.broadcast_to(weights[:, tf.newaxis, tf.newaxis], cells.shape)
    run.metrics["found"].update_state(
        tf.reshape(there, [-1]), tf.reshape(tf.sigmoid(outputs["there"]), [-1]), tf.reshape(each, [-1])
    )
    run.metrics["box_error"].update_state(labels["box"], outputs["box"], cells)
    return {"main": main + BOXES * boxes, "box": boxes}
""",
    terms="box",
)

# ---------------------------------------------------------------- tags of ragged sequences

TAGGING = _task(
    data='''ROWS = {"train": 960, "validation": 200, "test": 200}
LONGEST, SYMBOLS = 20, 12  # symbols are 1 to SYMBOLS, 0 is padding


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Sequences int32 (n, LONGEST); tags float32 (n, LONGEST), 1 where a symbol is larger than the last."""
    datasets = {}
    for seed, (split, rows) in enumerate(ROWS.items()):
        random = np.random.default_rng(seed)
        symbols = random.integers(1, SYMBOLS + 1, size=(rows, LONGEST))
        lengths = random.integers(3, LONGEST + 1, size=(rows, 1))
        before = np.concatenate([np.zeros((rows, 1), int), symbols[:, :-1]], axis=1)
        tags = symbols > before
        inside = np.arange(LONGEST) < lengths
        datasets[split] = (np.where(inside, symbols, 0).astype("int32"), (tags * inside).astype("float32"))
    return datasets
''',
    from_data="SYMBOLS",
    model="\n\n"
    + NOTHING_ADAPTED
    + '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Symbols int (batch, length) -> logits of tags (batch, length, 1)."""
    layers = keras.layers
    symbols = keras.Input((None,), dtype="int32", name="symbols")
    x = layers.Embedding(SYMBOLS + 1, 16, mask_zero=True)(symbols)
    x = layers.GRU(task.width, return_sequences=True)(x)
    return keras.Model(symbols, layers.Dense(1, dtype=keras.config.floatx())(x))
''',
    count='''def count(batch: Any) -> tf.Tensor:
    """How many symbols of `batch` count, an int32 scalar; padding doesn't."""
    symbols, _, weights = batch
    return tf.math.count_nonzero(token_weights(symbols, weights), dtype=tf.int32)


def token_weights(symbols: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weight of each symbol, (batch, length); 0 for padding."""
    return tf.cast(symbols != 0, weights.dtype) * weights[:, tf.newaxis]
''',
    metrics=ACCURACY_OF_LOGITS,
    from_losses="compute_loss, token_weights",
    steps="""

def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    symbols, tags, weights = batch
    logits = run.model(symbols, training=training)[..., 0]  # (batch, length)
    per_token = tf.nn.sigmoid_cross_entropy_with_logits(tags, logits)
    each = token_weights(symbols, weights)
    run.metrics["accuracy"].update_state(tags[..., tf.newaxis], logits[..., tf.newaxis], each)
    # An example of 20 symbols counts more than one of 3: the mean is over symbols.
    per_example = tf.reduce_sum(tf.where(symbols != 0, per_token, 0.0), axis=1)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
)

# ---------------------------------------------------------------- labels with several tags each

MULTILABEL = _task(
    config=CONFIG.replace("validation_loss", "validation_accuracy").replace("= False", "= True"),
    data='''SIZE, TAGS = 20, 5
ROWS = {"train": 960, "validation": 220, "test": 220}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Vectors float32 (n, SIZE), tags float32 (n, TAGS), each 0 or 1."""
    vectors, tags = _all()
    order = np.random.default_rng(7).permutation(len(vectors))
    datasets, start = {}, 0
    for split, rows in ROWS.items():
        chosen = order[start : start + rows]
        datasets[split] = vectors[chosen], tags[chosen]
        start += rows
    return datasets


def _all() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    vectors = random.normal(size=(sum(ROWS.values()), SIZE))
    scores = np.tanh(vectors @ random.normal(size=(SIZE, 8))) @ random.normal(size=(8, TAGS))
    noisy = scores + 0.3 * random.normal(size=scores.shape)
    return vectors.astype("float32"), (noisy > 1).astype("float32")
''',
    from_data="SIZE, TAGS",
    model="\n\n"
    + NOTHING_ADAPTED
    + '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Vectors (batch, SIZE) -> logits (batch, TAGS)."""
    layers = keras.layers
    vectors = keras.Input((SIZE,), name="vectors")
    x = layers.Dense(task.width, activation="gelu")(vectors)
    x = layers.LayerNormalization()(x)
    return keras.Model(vectors, layers.Dense(TAGS, dtype=keras.config.floatx())(x))
''',
    metrics=ACCURACY_OF_LOGITS,
    steps="""

def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    vectors, tags, weights = batch
    logits = run.model(vectors, training=training)  # (batch, TAGS)
    per_example = run.losses["main"](tags, logits)  # (batch,)
    run.metrics["accuracy"].update_state(tags, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
)

# ---------------------------------------------------------------- forecasting

FORECAST = _task(
    losses=_losses('keras.losses.Huber(reduction="none")'),
    data='''WINDOW, POINTS = 24, 3000
PARTS = {"train": (0.0, 0.7), "validation": (0.7, 0.85), "test": (0.85, 1.0)}  # of the time


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows float32 (n, WINDOW) of a series, and the value after each, float32 (n, 1)."""
    series = _series()
    datasets = {}
    for split, (start, end) in PARTS.items():
        part = series[int(start * POINTS) : int(end * POINTS)]
        windows = np.lib.stride_tricks.sliding_window_view(part, WINDOW + 1)
        datasets[split] = windows[:, :-1].copy(), windows[:, -1:].copy()
    return datasets


def _series() -> np.ndarray:
    random, time = np.random.default_rng(3), np.arange(POINTS)
    noise = np.zeros(POINTS)
    for now in range(1, POINTS):
        noise[now] = 0.8 * noise[now - 1] + 0.3 * random.normal()
    waves = np.sin(time / 5) + np.sin(time / 17 + 1)
    return (waves + noise).astype("float32")
''',
    model='''

def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of the training values."""
    windows, _ = datasets["train"]
    return {"mean": windows.mean(), "variance": windows.var(), "window": windows.shape[1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Windows (batch, window) -> the next value (batch, 1)."""
    layers = keras.layers
    windows = keras.Input((int(adapted["window"]),), name="windows")
    x = layers.Normalization(
        axis=None, mean=float(adapted["mean"]), variance=float(adapted["variance"])
    )(windows)
    x = layers.Dense(2 * task.width, activation="gelu")(x)
    x = layers.Dense(task.width, activation="gelu")(x)
    return keras.Model(windows, layers.Dense(1, dtype=keras.config.floatx())(x))
''',
    metrics='{"mae": keras.metrics.MeanAbsoluteError()}',
    steps="""

def _step(run: Run, batch: Batch, replica: Replica, training: bool) -> dict[str, tf.Tensor]:
    windows, following, weights = batch
    predicted = run.model(windows, training=training)  # (batch, 1)
    per_example = run.losses["main"](following, predicted)  # (batch,)
    run.metrics["mae"].update_state(following, predicted, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
)

# ---------------------------------------------------------------- a Wasserstein GAN

PENALTY = '''def gradient_penalty(critic: keras.Model, real: tf.Tensor, generated: tf.Tensor, seed: tf.Tensor):
    """How far the slope of the critic is from 1 between real and generated images, (batch,)."""
    share = tf.random.stateless_uniform((real.shape[0], 1, 1, 1), seed, dtype=real.dtype)
    between = share * real + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        scores = critic(between, training=True)
    slopes = tape.gradient(scores, between)  # (batch, h, w, channels)
    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)
    return tf.square(norms - 1)


'''
WGAN: tuple[Edit, ...] = (
    Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
    Edit(
        "losses.py",
        at.DISCRIMINATOR_LOSS,
        "        return (on_generated - on_real)[:, 0]\n",
    ),
    Edit("losses.py", at.GENERATOR_LOSS, "        return -on_generated[:, 0]\n"),
    Edit("losses.py", at.BINARY_CROSS_ENTROPY, "\n"),
    before("losses.py", "# TODO(10): the number", PENALTY),
    after("steps.py", "import compute_loss", ", gradient_penalty"),
    after(
        "steps.py",
        '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
        "    per_example += 10 * gradient_penalty(discriminator, images, generated, replica.seed)\n",
    ),
    Edit("optimizer.py", at.SCHEDULE, "    decay = keras.optimizers.schedules.CosineDecay\n"),
    Edit(
        "optimizer.py",
        '        "generator": keras.optimizers.Adam(schedule, beta_1=0.5),\n'
        '        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),\n',
        '        "generator": keras.optimizers.Adam(decay(task.learning_rate, steps), beta_1=0.5),\n'
        "        # Makes two updates in each step.\n"
        '        "discriminator": keras.optimizers.Adam(\n'
        "            decay(task.learning_rate, 2 * steps), beta_1=0.5\n"
        "        ),\n",
    ),
    Edit(
        "steps.py",
        at.GAN_STEPS,
        "TRAIN_STEPS = (discriminator_step, discriminator_step, generator_step)",
    ),
)

TASKS: tuple[Change, ...] = (
    Change(name="VAE: annealed divergence", starter="blank", edits=blank.fill(VAE)),
    Change(
        name="contrastive: views gathered from all replicas",
        starter="blank",
        edits=blank.fill(CONTRASTIVE),
    ),
    Change(name="detection: two denominators", starter="blank", edits=blank.fill(DETECTION)),
    Change(name="tagging: ragged sequences", starter="blank", edits=blank.fill(TAGGING)),
    Change(name="GAN: Wasserstein with gradient penalty", starter="gan", edits=WGAN),
)

# ================================================================ faults: segmentation

SHIFT = '''def _shift(t: tf.Tensor, seed: tf.Tensor, interpolation: str) -> tf.Tensor:
    """Each of (batch, h, w, channels) by up to 4 pixels along both sides."""
    offset = tf.random.stateless_uniform((t.shape[0], 2), seed, -4, 5, dtype=tf.int32)
    dy, dx = tf.unstack(tf.cast(offset, tf.float32), axis=1)
    one, zero = tf.ones_like(dy), tf.zeros_like(dy)
    transforms = tf.stack([one, zero, dx, zero, one, dy, zero, zero], axis=1)
    return keras.ops.image.affine_transform(t, transforms, interpolation)


'''

DICE = '''def dice_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 - the soft Dice coefficient (Milletari et al., 2016), averaged over the classes."""
    valid = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    truth = tf.one_hot(labels, CLASSES, dtype=logits.dtype) * valid
    predicted = tf.nn.softmax(logits) * valid
    common = tf.reduce_sum(truth * predicted, axis=[0, 1, 2])  # (classes,)
    both = tf.reduce_sum(truth + predicted, axis=[0, 1, 2])
    return 1 - tf.reduce_mean((2 * common + 1) / (both + 1))


'''

MEAN_IOU = (
    '    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n'
)

DIGIT_ACCURACY = '''class DigitAccuracy(keras.metrics.Metric):
    """The fraction of digit pixels that are found with the right class."""

    def __init__(self) -> None:
        super().__init__(name="digit_accuracy")
        self._accuracy = self.add_weight(name="accuracy", initializer="zeros")

    def update_state(self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add labels (batch, h, w) and logits (batch, h, w, classes)."""
        digits = (labels > 0) & (labels != IGNORED)
        counted = tf.cast(digits, sample_weight.dtype) * sample_weight
        right = tf.argmax(logits, axis=-1, output_type=labels.dtype) == labels
        found = tf.reduce_sum(tf.cast(right, counted.dtype) * counted)
        self._accuracy.assign(tf.math.divide_no_nan(found, tf.reduce_sum(counted)))

    def result(self) -> tf.Tensor:
        """The fraction."""
        return tf.convert_to_tensor(self._accuracy)


'''

SEGMENTATION_FAULTS: tuple[Fault, ...] = (
    Fault(
        name="segmentation: shifts apart",
        starter="segmentation",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="The random shift of the images and that of their labels are drawn with different "
        "seeds, so that training labels lie up to 8 pixels beside the digits.",
        named=r"(?i)augment\w*.*(label|mask|target|align)|(label|mask)s?.*(align|not follow|apart|"
        r"differ\w* (transform|shift)|other (transform|shift)|same (transform|shift|way|random))|misalign",
        edits=(
            before("data.py", "def _compose(", SHIFT),
            before(
                "data.py",
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
                '        images = _shift(images, seed + 1, "bilinear")\n'
                '        labels = _shift(labels, seed + 2, "nearest")\n',
            ),
        ),
    ),
    Fault(
        name="segmentation: shift of numpy",
        starter="segmentation",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="NumPy draws the shift once, when tf.data traces the augmentation: every batch of the "
        "whole run is shifted by the same pixels, and neither --seed nor a resumed run controls it.",
        named=r"(?i)numpy|np\.random|same (shift|numbers|augmentation|result|draw|for (each|every))|"
        r"ignores? (the|its|their) seed|(seed|stateless)|constant|once|trace",
        edits=(
            before(
                "data.py",
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
                "        shift = np.random.randint(-6, 7, size=2)\n"
                "        images = tf.roll(images, shift, axis=(1, 2))\n"
                "        labels = tf.roll(labels, shift, axis=(1, 2))\n",
            ),
        ),
    ),
    Fault(
        name="segmentation: dice over the replica's batch",
        starter="segmentation",
        kind=kinds.LOSS_SCALING,
        file="losses.py",
        cause="The Dice coefficient is one ratio over all images of a replica's batch, padding "
        "included: the loss of an example depends on the others, and N replicas have another loss "
        "than one.",
        named=r"(?i)(depend|interact|mix|influence|compar)\w*.*(other|batch|example|row|replica)|"
        r"EXAMPLES_INTERACT|replica|padd|whole batch|over the batch|axis",
        edits=(
            Edit("losses.py", "import IGNORED", "import CLASSES, IGNORED"),
            before("losses.py", "# TODO(10): the number", DICE),
            after("steps.py", at.LOSSES_IMPORT, ", dice_loss"),
            after(
                "steps.py",
                at.OF_PIXELS,
                "    per_example += dice_loss(labels, logits)\n",
                "*",
            ),
        ),
    ),
    Fault(
        name="segmentation: trains without training=True",
        starter="segmentation",
        kind=kinds.MODEL,
        file="steps.py",
        cause="train_step calls the model without training=True: batch normalization uses its "
        "initial moving statistics and never updates them, so that nothing is ever normalized.",
        named=r"(?i)training ?= ?True|training mode|batch.?norm\w*|moving (mean|average|statistic|variance)",
        edits=(
            Edit(
                "steps.py",
                "run.model(images, training=True)",
                "run.model(images)",
                "train_step",
            ),
        ),
    ),
    Fault(
        name="segmentation: early stopping of the best",
        starter="segmentation",
        kind=kinds.EVALUATION,
        file="callbacks.py",
        cause="EarlyStopping waits for the mean IoU to fall (mode='min'), so that it ends the run "
        "after a few epochs because the model gets better.",
        named=r"(?i)mode|larger|direction|early.?stop\w*|stops? (the run|training|too|early|after)|min\b",
        edits=(
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "import keras\n\nfrom ..engine.callbacks import Callback\n"
                "from ..engine.keras_callbacks import keras_callback\n",
            ),
            Edit(
                "callbacks.py",
                at.NO_CALLBACKS,
                "    stopping = keras.callbacks.EarlyStopping(\n"
                '        monitor="val_mean_iou", mode="min", patience=5\n'
                "    )\n"
                "    return [keras_callback(stopping)]\n",
            ),
        ),
    ),
    Fault(
        name="segmentation: metric of the last batch",
        starter="segmentation",
        kind=kinds.METRICS,
        file="metrics.py",
        cause="The metric assigns the accuracy of the latest batch instead of adding up counts, so "
        "that history.csv shows one batch (and one replica's rows of it) as if it were the split.",
        named=r"(?i)digit_accuracy.*|metric.*(last|latest|overwrit|assign|add|sum|accumul|batch|order|replica)|"
        r"(last|latest) batch",
        edits=(
            before("metrics.py", "# TODO(6): your metrics", DIGIT_ACCURACY),
            Edit(
                "metrics.py",
                '    return {"mean_iou": mean_iou}',
                '    return {"mean_iou": mean_iou, "digit_accuracy": DigitAccuracy()}',
            ),
            after("steps.py", MEAN_IOU, MEAN_IOU.replace("mean_iou", "digit_accuracy"), "*"),
        ),
    ),
    Fault(
        name="segmentation: regularization not scaled",
        starter="segmentation",
        kind=kinds.REGULARIZATION,
        file="losses.py",
        cause="The regularization losses are added whole on every replica and micro-batch, so that "
        "with N of them the weights are regularized N times as much.",
        named=r"(?i)regulari[sz]\w*|model\.losses|weight decay|L2|add_loss",
        edits=(
            Edit(
                "model.py",
                'padding="same", activation="swish")(x)',
                'padding="same", activation="swish", kernel_regularizer=DECAY)(x)',
            ),
            before("model.py", "LEVELS = 3", "DECAY = keras.regularizers.L2(1e-3)\n"),
            Edit("losses.py", at.REGULARIZED, "    return loss + tf.add_n(model.losses)\n"),
        ),
    ),
)

# ================================================================ faults: gan

PLATEAU = '''class Plateau:
    """Halves both learning rates when the distance hasn't fallen for some validations."""

    def __init__(self, patience: int = 3) -> None:
        self._patience = patience
        self._best = float("inf")
        self._waited = 0

    def __call__(self, event: Event) -> None:
        """After a validation."""
        distance = event.history[-1]["validation_frechet"]
        if distance < self._best:
            self._best, self._waited = distance, 0
            return
        self._waited += 1
        if self._waited >= self._patience:
            self._waited = 0
            rate = event.learning_rates["generator"] / 2
            for optimizer in event.run.optimizers.values():
                optimizer.learning_rate = rate


'''

GAN_FAULTS: tuple[Fault, ...] = (
    Fault(
        name="GAN: more critic steps than schedule",
        starter="gan",
        kind=kinds.OPTIMIZER,
        file="optimizer.py",
        cause="The discriminator now makes four updates in each step, but its cosine schedule still "
        "ends after `steps` updates: its learning rate is 0 in the last three quarters of the run.",
        named=r"(?i)learning rate|schedule|decay_steps|decay|\biterations\b",
        edits=(
            Edit(
                "steps.py",
                at.GAN_STEPS + "  # called in this order on the same batch",
                "# Four times the discriminator, then once the generator (Arjovsky et al., 2017).\n"
                "TRAIN_STEPS = (*[discriminator_step] * 4, generator_step)",
            ),
        ),
    ),
    Fault(
        name="GAN: penalty of the batch's norm",
        starter="gan",
        kind=kinds.GAN,
        file="losses.py",
        cause="The gradient penalty takes one norm over all images of the replica's batch, not one "
        "for each: it pulls another quantity to 1, mixes the examples (padding too), and depends on "
        "the number of replicas.",
        named=r"(?i)gradient.?penalty|norm|(depend|interact|mix|influence)\w*.*(other|batch|example|row|replica)|"
        r"EXAMPLES_INTERACT|replica|whole batch",
        edits=(
            *WGAN,
            Edit(
                "losses.py",
                "    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)\n"
                "    return tf.square(norms - 1)\n",
                "    return tf.square(tf.norm(slopes) - 1)\n",
            ),
        ),
    ),
    Fault(
        name="GAN: sigmoid for minus one to one",
        starter="gan",
        kind=kinds.INPUTS,
        file="model.py",
        cause="The images are scaled to [-1, 1], but the generator still ends in a sigmoid: it can "
        "never draw the background (-1), and the discriminator tells real images by their range.",
        named=r"(?i)range|sigmoid|tanh|\[-1|-1\b|negative|scale|can('|no)t (reach|give|produce)|never (reach|below)|below 0",
        edits=(
            Edit(
                "data.py", '(images / 16).astype("float32")', '(images / 8 - 1).astype("float32")'
            ),
        ),
    ),
    Fault(
        name="GAN: stateful instance noise",
        starter="gan",
        kind=kinds.STREAMS,
        file="steps.py",
        cause="The noise on the discriminator's images comes from tf.random.normal, whose state is "
        "neither saved nor tied to step and replica: a resumed run and another number of replicas "
        "draw other numbers.",
        named=r"(?i)tf\.random\.normal|random|seed|stateless|reproduc|resum|noise",
        edits=(
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n"
                "    on_generated = discriminator(generated, training=True)  # (batch, 1)\n",
                "    # Instance noise (Sonderby et al., 2017) fades out in the first 500 steps.\n"
                "    noise = 0.2 * tf.maximum(0.0, 1 - tf.cast(replica.step, images.dtype) / 500)\n"
                "    noisy = images + noise * tf.random.normal(images.shape, dtype=images.dtype)\n"
                "    on_real = discriminator(noisy, training=True)  # (batch, 1)\n"
                "    noisy = generated + noise * tf.random.normal(images.shape, dtype=images.dtype)\n"
                "    on_generated = discriminator(noisy, training=True)  # (batch, 1)\n",
                "discriminator_step",
            ),
        ),
    ),
    Fault(
        name="GAN: plateau forgets on resume",
        starter="gan",
        kind=kinds.STREAMS,
        file="callbacks.py",
        cause="The callback counts validations in attributes without get_state and set_state: a "
        "resumed run starts with best = inf and waited = 0, and lowers the learning rates at other "
        "times than the run that wasn't interrupted.",
        named=r"(?i)get_state|set_state|callback.*(state|resum|attribute|forget|checkpoint|saved)|resum|"
        r"state.*(callback|Plateau)|Plateau",
        edits=(
            Edit("optimizer.py", at.SCHEDULE, ""),
            Edit("optimizer.py", "Adam(schedule,", "Adam(task.learning_rate,", "*"),
            after("callbacks.py", "import Callback, Event, every_epochs", ", every_validation"),
            Edit(
                "callbacks.py",
                "return [every_epochs(1, _draw)]",
                "return [every_epochs(1, _draw), every_validation(Plateau())]",
            ),
            before("callbacks.py", "def _draw(", PLATEAU),
        ),
    ),
)

# ================================================================ faults: blank

# Leaks: windows of the whole series, which overlap, are dealt out at random.
RANDOM_WINDOWS = (
    "data",
    """    datasets = {}
    for split, (start, end) in PARTS.items():
        part = series[int(start * POINTS) : int(end * POINTS)]
        windows = np.lib.stride_tricks.sliding_window_view(part, WINDOW + 1)
        datasets[split] = windows[:, :-1].copy(), windows[:, -1:].copy()
    return datasets
""",
    """    windows = np.lib.stride_tricks.sliding_window_view(series, WINDOW + 1)
    windows = windows[np.random.default_rng(0).permutation(len(windows))]
    datasets = {}
    for split, (start, end) in PARTS.items():
        part = windows[int(start * len(windows)) : int(end * len(windows))]
        datasets[split] = part[:, :-1].copy(), part[:, -1:].copy()
    return datasets
""",
)

RMSE_OF_BATCHES = (
    (
        "metrics",
        'return {"mae": keras.metrics.MeanAbsoluteError()}',
        'return {"mae": keras.metrics.MeanAbsoluteError(), "rmse": keras.metrics.Mean()}',
    ),
    (
        "steps",
        '    run.metrics["mae"].update_state(following, predicted, weights)\n',
        '    run.metrics["mae"].update_state(following, predicted, weights)\n'
        "    rmse = tf.sqrt(tf.reduce_mean(tf.square(following - predicted)))\n"
        '    run.metrics["rmse"].update_state(rmse)\n',
    ),
)

# Distillation: of the tags, from a larger model that has been trained before.
TEACHER = """
import keras
import numpy as np

random = np.random.default_rng(1)
vectors = random.normal(size=(1400, 20))
scores = np.tanh(vectors @ random.normal(size=(20, 8))) @ random.normal(size=(8, 5))
noisy = scores + 0.3 * random.normal(size=scores.shape)
train = np.random.default_rng(7).permutation(1400)[:960]
keras.utils.set_random_seed(0)
layers = keras.layers
model = keras.Sequential(
    [keras.Input((20,)), layers.Dense(128, "gelu", name="hidden"), layers.Dense(5, name="tags")]
)
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(vectors[train], (noisy[train] > 1).astype("float32"), epochs=20, verbose=0)
model.save("teacher.keras")
"""
DISTILLATION = (
    (
        "model",
        '''adapted: dict[str, np.ndarray]) -> keras.Model:
    """Vectors (batch, SIZE) -> logits (batch, TAGS)."""
''',
        '''adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Vectors (batch, SIZE) -> logits (batch, TAGS), of the student and of its teacher."""
''',
    ),
    (
        "model",
        "    return keras.Model(vectors, layers.Dense(TAGS, dtype=keras.config.floatx())(x))\n",
        "    student = keras.Model(vectors, layers.Dense(TAGS, dtype=keras.config.floatx())(x))\n"
        '    teacher = keras.models.load_model("teacher.keras", compile=False)\n'
        '    return {"student": student, "teacher": teacher}\n',
    ),
    (
        "steps",
        "    logits = run.model(vectors, training=training)  # (batch, TAGS)\n"
        '    per_example = run.losses["main"](tags, logits)  # (batch,)\n',
        '    logits = run.models["student"](vectors, training=training)  # (batch, TAGS)\n'
        '    soft = tf.sigmoid(run.models["teacher"](vectors, training=False) / TEMPERATURE)\n'
        '    per_example = 0.3 * run.losses["main"](tags, logits)  # (batch,)\n'
        '    per_example += 0.7 * TEMPERATURE**2 * run.losses["main"](soft, logits / TEMPERATURE)\n',
    ),
    ("steps", "weights, run.model, replica)", 'weights, run.models["student"], replica)'),
    (
        "steps",
        "\n\ndef _step(",
        "\nTEMPERATURE = 2.0\n\n\ndef _step(",
    ),
)

# Fine-tuning: a backbone from a file, frozen by gradients of zero.
BACKBONE = """
import keras
import numpy as np

keras.utils.set_random_seed(0)
layers = keras.layers
vectors = np.random.default_rng(5).normal(size=(4000, 20)).astype("float32")
inputs = keras.Input((20,), name="vectors")
x = layers.Dense(64, "gelu", name="backbone_1")(inputs)
features = layers.Dense(48, "gelu", name="backbone_2")(x)
model = keras.Model(inputs, layers.Dense(20)(features))
model.compile("adam", "mse")
model.fit(vectors, vectors, epochs=8, verbose=0)
keras.Model(inputs, features, name="backbone").save("backbone.keras")
"""
FINE_TUNING = (
    (
        "model",
        "from .config import TaskConfig\n",
        "from ..engine.auxiliary import load_in_precision\nfrom .config import TaskConfig\n",
    ),
    (
        "model",
        '    x = layers.Dense(task.width, activation="gelu")(vectors)\n',
        '    x = load_in_precision("backbone.keras")(vectors)  # pretrained on other data\n'
        '    x = layers.Dense(task.width, activation="gelu")(x)\n',
    ),
    (
        "optimizer",
        "    return keras.optimizers.Adam(schedule)\n",
        "    return keras.optimizers.AdamW(schedule, weight_decay=0.3)\n",
    ),
    (
        "optimizer",
        '    """One gradient for each of `variables`, the same on every replica."""\n'
        "    return gradients\n",
        '    """Freezes the backbone: only the head is fine-tuned."""\n'
        "    return [\n"
        '        tf.zeros_like(g) if "backbone" in v.path else g\n'
        "        for g, v in zip(gradients, variables, strict=True)\n"
        "    ]\n",
    ),
)

BLANK_FAULTS: tuple[Fault, ...] = (
    Fault(
        name="VAE: noise from an integer seed",
        starter="blank",
        kind=kinds.MODEL,
        file="model.py",
        cause="keras.random.normal(seed=1337) gives the same numbers in every call: each row of a "
        "batch has the same noise in all steps and on all replicas, so that the latents aren't "
        "sampled at all.",
        named=r"(?i)seed|same (noise|numbers|random|draw)|SeedGenerator|noise|random|constant",
        edits=blank.fill(
            VAE,
            ("model", "        self.seed_generator = keras.random.SeedGenerator(0)\n", ""),
            ("model", "seed=self.seed_generator", "seed=1337"),
        ),
    ),
    Fault(
        name="VAE: annealing in Python",
        starter="blank",
        kind=kinds.MODEL,
        file="steps.py",
        cause="The weight of the divergence is a Python number that a callback changes; the step "
        "read it once, when it was traced, so that it stays 0 for the whole run and the latents "
        "are never pulled to the prior.",
        named=r"(?i)trace|python|constant|global|once|ANNEALING|beta|never (changes|used|takes)|module|no effect",
        edits=blank.fill(
            VAE,
            (
                "steps",
                "WARMUP = 100  # steps in which the weight of the divergence rises from 0 to 1\n",
                'ANNEALING = {"beta": 0.0}  # the weight of the divergence; a callback raises it to 1\n',
            ),
            (
                "steps",
                """    beta = tf.ones((), kl.dtype)
    if training:
        beta = tf.minimum(beta, tf.cast(replica.step, kl.dtype) / WARMUP)
""",
                '    beta = ANNEALING["beta"] if training else 1.0\n',
            ),
            (
                "callbacks",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                "from ..engine.callbacks import Callback, Event, every_epochs\n"
                "from .config import TaskConfig\nfrom .steps import ANNEALING\n",
            ),
            (
                "callbacks",
                "    return []\n",
                "    return [every_epochs(1, _anneal)]\n\n\n"
                "def _anneal(event: Event) -> None:\n"
                '    ANNEALING["beta"] = min(1.0, event.epoch / 10)\n',
            ),
        ),
    ),
    Fault(
        name="VAE: divergence summed over the batch",
        starter="blank",
        kind=kinds.LOSS_SCALING,
        file="model.py",
        cause="The sampling layer adds the divergence summed over the replica's batch, padding "
        "included, to a loss that is a mean over examples: it weighs as many times more as the "
        "replica has rows, so that its weight changes with the batch size and the replicas.",
        named=r"(?i)add_loss|model\.losses|regulari[sz]|replica|batch size|padd|sum\w* over|divergence|rows|micro",
        edits=blank.fill(
            VAE,
            (
                "model",
                "        if not training:\n            return mean\n",
                "        divergence = keras.ops.square(mean) + keras.ops.exp(log_variance)\n"
                "        self.add_loss(0.01 * keras.ops.sum(divergence - 1 - log_variance) / 2)\n"
                "        if not training:\n            return mean\n",
            ),
            (
                "steps",
                """    beta = tf.ones((), kl.dtype)
    if training:
        beta = tf.minimum(beta, tf.cast(replica.step, kl.dtype) / WARMUP)
""",
                "",
            ),
            (
                "steps",
                "WARMUP = 100  # steps in which the weight of the divergence rises from 0 to 1\n",
                "",
            ),
            (
                "steps",
                "compute_loss(reconstruction + beta * kl, weights,",
                "compute_loss(reconstruction, weights,",
            ),
        ),
    ),
    Fault(
        name="contrastive: labels of the first replica",
        starter="blank",
        kind=kinds.LABELS,
        file="steps.py",
        cause="The keys are gathered from all replicas, but the row of the partner isn't moved by "
        "the replica's index: from the second replica on, each example is pulled to one of the "
        "first replica's.",
        named=r"(?i)replica|label|index|offset|gather|row",
        edits=blank.fill(
            CONTRASTIVE,
            (
                "steps",
                "    partners = replica.index * a.shape[0] + tf.range(a.shape[0])",
                "    partners = tf.range(a.shape[0])",
            ),
        ),
    ),
    Fault(
        name="contrastive: identical views",
        starter="blank",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="Both views are drawn with the same seed and so are identical: in training the "
        "partner is an exact copy, and the model doesn't learn to see through the noise.",
        named=r"(?i)identical|same (seed|numbers|noise|view|values|random)|equal|copy|copies|view|twice|duplicate",
        edits=blank.fill(
            CONTRASTIVE,
            (
                "data",
                "        first = x + _noise(x, tf.stack([seed[0], 2 * seed[1]]))\n"
                "        second = x + _noise(x, tf.stack([seed[0], 2 * seed[1] + 1]))\n",
                "        first = x + _noise(x, seed)\n        second = x + _noise(x, seed)\n",
            ),
        ),
    ),
    Fault(
        name="forecast: windows split at random",
        starter="blank",
        kind=kinds.LEAKS,
        file="data.py",
        cause="Overlapping windows of one series are dealt out to the splits at random: nearly "
        "every value that validation and test ask for is in training windows.",
        named=r"(?i)leak|overlap|share|in (the )?(train|both)|train\w*.*(validation|test)|"
        r"(validation|test).*train|same (values|rows|windows)",
        edits=blank.fill(FORECAST, RANDOM_WINDOWS),
    ),
    Fault(
        name="forecast: RMSE as a mean of batches",
        starter="blank",
        kind=kinds.METRICS,
        file="metrics.py",
        cause="The metric is the mean of the root mean squared errors of batches, padding included, "
        "and not that of the split: it changes with the batch size, the replicas and the padding.",
        named=r"(?i)rmse|padd|metric.*(batch|replica|weight|order|mean|split)|mean of (batches|roots)|sample_weight",
        edits=blank.fill(FORECAST, *RMSE_OF_BATCHES),
    ),
    Fault(
        name="distillation: trains the teacher",
        starter="blank",
        kind=kinds.GAN,
        file="model.py",
        cause="The teacher is returned as one more model that the only optimizer trains: it is "
        "pulled towards the student and forgets what it was to teach.",
        named=r"(?i)teacher|load_frozen|frozen|freeze|stop_gradient|auxiliary|trainable",
        preparation=TEACHER,
        edits=blank.fill(MULTILABEL, *DISTILLATION),
    ),
    Fault(
        name="fine-tuning: frozen weights decay",
        starter="blank",
        kind=kinds.OPTIMIZER,
        file="optimizer.py",
        cause="The backbone is frozen by gradients of zero, but AdamW still decays its weights in "
        "each step: the backbone isn't frozen, and its pretrained weights shrink without end.",
        named=r"(?i)weight.?decay|AdamW|decay|frozen|freeze|trainable|backbone|gradients? .*(zero|0)|zero gradient",
        preparation=BACKBONE,
        edits=blank.fill(MULTILABEL, *FINE_TUNING),
    ),
    Fault(
        name="detection: boxes by the replica's positives",
        starter="blank",
        kind=kinds.DENOMINATORS,
        file="steps.py",
        cause="The loss of the boxes is divided by the cells with a box in the replica's own rows, "
        "not by those of the global batch: N replicas add up to N times the loss, and each box "
        "weighs differently on each.",
        named=r"(?i)replica|global_count|denominator|divid|local|own (rows|batch|count)|micro",
        edits=blank.fill(
            DETECTION,
            (
                "steps",
                '    boxes = tf.reduce_sum(cells * per_box) / tf.cast(replica.global_count["box"], per_box.dtype)\n',
                "    positives = tf.maximum(tf.reduce_sum(cells), 1.0)\n"
                "    boxes = tf.reduce_sum(cells * per_box) / positives\n",
            ),
        ),
    ),
    Fault(
        name="tagging: padding counts",
        starter="blank",
        kind=kinds.WEIGHTS,
        file="steps.py",
        cause="The slice of the logits has lost the mask of the embedding, and the loss and the "
        "accuracy average over all 20 places: half of what they count is padding, always tag 0.",
        named=r"(?i)mask|padd|token|length|zeros?\b",
        edits=blank.fill(
            TAGGING,
            (
                "losses",
                '''    symbols, _, weights = batch
    return tf.math.count_nonzero(token_weights(symbols, weights), dtype=tf.int32)


def token_weights(symbols: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """The weight of each symbol, (batch, length); 0 for padding."""
    return tf.cast(symbols != 0, weights.dtype) * weights[:, tf.newaxis]
''',
                "    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)\n",
            ),
            (
                "losses",
                "symbols of `batch` count, an int32 scalar; padding doesn't.",
                "sequences of `batch` count.",
            ),
            ("steps", "import compute_loss, token_weights", "import compute_loss"),
            ("steps", "    each = token_weights(symbols, weights)\n", ""),
            (
                "steps",
                "update_state(tags[..., tf.newaxis], logits[..., tf.newaxis], each)",
                "update_state(tags, logits, weights)",
            ),
            (
                "steps",
                "    # An example of 20 symbols counts more than one of 3: the mean is over symbols.\n"
                "    per_example = tf.reduce_sum(tf.where(symbols != 0, per_token, 0.0), axis=1)\n",
                "    per_example = tf.reduce_mean(per_token, axis=1)\n",
            ),
        ),
    ),
    Fault(
        name="multi-label: accuracy of logits",
        starter="blank",
        kind=kinds.METRICS,
        file="metrics.py",
        cause="BinaryAccuracy cuts the logits at 0.5 as if they were probabilities: tags with a "
        "probability between 0.5 and 0.62 count as absent, and this selects the best weights.",
        named=r"(?i)logit|threshold|probabilit|sigmoid|0\.5",
        edits=blank.fill(
            MULTILABEL,
            (
                "metrics",
                "keras.metrics.BinaryAccuracy(threshold=0.0)",
                "keras.metrics.BinaryAccuracy()",
            ),
        ),
    ),
)

FAULTS: tuple[Fault, ...] = (*SEGMENTATION_FAULTS, *GAN_FAULTS, *BLANK_FAULTS)
