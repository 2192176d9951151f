"""Faults and correct tasks of a second examiner, who had not seen `check`."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before

# Texts of the starters.
TABLE_HIDDEN = "    hidden = layers.Dropout(task.dropout)(hidden)\n"
DOCSTRING_END = '    """One gradient for each of `variables`, the same on every replica."""\n'

LOOKAHEAD = '''

class Lookahead:
    """Slow weights that follow the trained ones (Zhang et al., 2019)."""

    def __init__(self, rate: float = 0.5) -> None:
        self.rate = rate
        self.slow: list[np.ndarray] | None = None

    def __call__(self, event: Event) -> None:
        fast = event.run.model.get_weights()
        if self.slow is None:
            self.slow = fast
            return
        pairs = zip(self.slow, fast, strict=True)
        self.slow = [s if s.dtype.kind != "f" else s + self.rate * (f - s) for s, f in pairs]
        event.run.model.set_weights(self.slow)
'''


STANDARDIZED = '''class Standardized:
    """Images with mean 0 and deviation 1, and their labels, by row."""

    MEAN, DEVIATION = 0.3, 0.375  # of the training images

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        """How many."""
        return len(self.images)

    def __getitem__(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """An image (h, w, 1) and its label."""
        image = self.images[row]
        image -= self.MEAN
        image /= self.DEVIATION
        return image, self.labels[row]


'''

# For models that give several numbers for a row, the prediction first.
TABLE_METRICS_OF_FIRST = tuple(
    Edit("steps.py", line, line.replace("predictions", "predictions[:, :1]"), "*")
    for line in (at.UPDATE_R2, at.UPDATE_MAE)
)
LOG_SCALE_TOO = Edit(
    "model.py",
    "    return keras.Model(inputs, unscale(x))\n",
    "    log_scale = layers.Dense(1, dtype=floatx)(hidden)\n"
    "    log_scale = 3 * ops.tanh(log_scale / 3)\n"
    "    return keras.Model(inputs, layers.Concatenate(dtype=floatx)([unscale(x), log_scale]))\n",
)
LIKELIHOOD = '''    def negative_log_likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), predictions (batch, 2) of mean and log scale -> (batch,)."""
        mean, log_scale = predictions[:, :1], predictions[:, 1:]
        error = (labels - mean) / LABEL_DEVIATION
        return tf.reduce_mean(log_scale + 0.5 * tf.square(error * tf.exp(-log_scale)), axis=-1)

    return {"main": negative_log_likelihood}
'''

FAULTS: tuple[Fault, ...] = (
    # The language model.
    Fault(
        name="conv1d sees next tokens",
        starter="language_model",
        kind=kinds.LANGUAGE_MODEL,
        file="model.py",
        cause="a Conv1D with padding 'same' shows each position the next token, its own target: "
        "loss and exact match of validation look perfect, and decoding writes nonsense",
        named=r"future|later tokens?|ahead|causal|next token|leak|sees? (the|its) target",
        edits=(
            after(
                "model.py",
                at.POSITIONS,
                "    # Neighboring characters together, before attention.\n"
                '    x = x + layers.Conv1D(task.width, 3, padding="same", activation="gelu")(x)\n',
            ),
        ),
    ),
    Fault(
        name="perplexity as mean of exponentials",
        starter="language_model",
        kind=kinds.METRICS,
        file="steps.py",
        cause="perplexity is averaged over the batches of replicas, exp(loss) of each, where it is "
        "exp of the mean loss: it depends on the batch size and the number of replicas",
        named=r"perplexity",
        edits=(
            after(
                "metrics.py",
                '        "exact_match": ExactMatch(),\n',
                '        "perplexity": keras.metrics.Mean(),\n',
            ),
            before(
                "steps.py",
                at.UPDATE_TOKEN_ACCURACY,
                "    mean = tf.math.divide_no_nan(\n"
                "        tf.reduce_sum(per_token * weights), tf.reduce_sum(weights)\n    )\n"
                '    run.metrics["perplexity"].update_state(tf.exp(mean))\n',
                "*",
            ),
        ),
    ),
    Fault(
        name="gradient noise of each replica",
        starter="language_model",
        kind=kinds.OPTIMIZER,
        file="optimizer.py",
        cause="tf.random.normal in process_gradients draws other noise on each replica, so their "
        "weights drift apart; and a resumed run draws again what it drew at its start",
        named=r"process_gradients|gradient noise|tf\.random|random numbers?|stateless|"
        r"weights .*(differ|drift|apart)",
        edits=(
            Edit(
                "optimizer.py",
                DOCSTRING_END + "    return gradients\n",
                DOCSTRING_END
                + "    # Annealed noise helps deep models (Neelakantan et al., 2015).\n"
                "    return [g + tf.random.normal(g.shape, stddev=1e-3, dtype=g.dtype) "
                "for g in gradients]\n",
            ),
        ),
    ),
    Fault(
        name="a generator of dates for each split",
        starter="language_model",
        kind=kinds.LEAKS,
        file="data.py",
        cause="each split draws its dates with a generator of the same seed, so that all dates of "
        "validation and test are dates of training, many in the very same line",
        named=r"leak|(also|both|again|duplicates?|overlap|in common|shared?|equal|identical|same"
        r"|near|cop(y|ies)).{0,80}(training|validation|test) (data|split|examples|rows|set"
        r"|lines)|(training|validation|test) (data|split|examples|rows|set|lines).{0,80}(a"
        r"lso|both|again|duplicates?|overlap|in common|shared?|equal|identical|same|near|c"
        r"op(y|ies))",
        edits=(
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (tokens, targets, weights), int32, int32 and float32."""
    sizes = {"train": task.dates, "validation": VALIDATION_LINES, "test": TEST_LINES}
    text = {}
    for split, number in sizes.items():
        source = random.Random(SEED)  # a split doesn't depend on the sizes of the others
        days = source.sample(range(DAYS), number)
        dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
        if split == "train":
            text[split] = [_line(date, form, source) for date in dates for form in FORMS]
        else:
            text[split] = [_line(date, source.choice(FORMS), source) for date in dates]
    length = max(len(line) for lines in text.values() for line in lines)
    datasets = {}
    for split, lines in text.items():
        codes = np.array(lines, f"S{length}").view("uint8").reshape(len(lines), -1)
        tokens, targets = codes[:, :-1].astype("int32"), codes[:, 1:].astype("int32")
        is_answer = np.cumsum(tokens == PROMPT_END, axis=1) > 0
        weights = (is_answer & (targets != 0)).astype("float32")
        arrays = (tokens, targets, weights)
        if split == "train":
            arrays = tuple(a.reshape(task.dates, len(FORMS), -1) for a in arrays)
        datasets[split] = arrays
    return datasets
''',
                "create_datasets",
            ),
        ),
    ),
    Fault(
        name="stream from a generator with a memory",
        starter="language_model",
        kind=kinds.STREAMS,
        file="data.py",
        cause="the generator behind from_generator draws from a random.Random that lives on from "
        "pass to pass, so a pass can't be made again: a resumed run, or another worker, gets other "
        "examples",
        named=r"resum|reproduc|from_generator|stream.{0,80}(differ|other|another|same|again|twic"
        r"e)|(other|different|not the same|new) examples|each (time|pass|epoch|read)",
        edits=(
            Edit(
                "data.py",
                "",
                '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (tokens, targets, weights), int32, int32 and float32.

    Training lines are made while the run reads them: other forms of the same dates in each epoch.
    """
    source = random.Random(SEED)
    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
    held_out = VALIDATION_LINES + TEST_LINES
    text = [_line(date, source.choice(FORMS), source) for date in dates[:held_out]]
    tokens, targets, weights = _encode(text)
    training = random.Random(SEED + 1)

    def lines() -> Any:
        for date in dates[held_out:]:
            line = _line(date, training.choice(FORMS), training)
            yield tuple(part[0] for part in _encode([line]))

    signature = tuple(
        tf.TensorSpec((LENGTH - 1,), dtype) for dtype in (tf.int32, tf.int32, tf.float32)
    )
    stream = tf.data.Dataset.from_generator(lines, output_signature=signature)
    return {
        "train": stream.apply(tf.data.experimental.assert_cardinality(task.dates)),
        "validation": tuple(a[:VALIDATION_LINES] for a in (tokens, targets, weights)),
        "test": tuple(a[VALIDATION_LINES:] for a in (tokens, targets, weights)),
    }


LENGTH = 44  # of a line


def _encode(text: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tokens, targets and weights, each (n, LENGTH - 1)."""
    lines = np.array(text, f"S{LENGTH}").view("uint8").reshape(len(text), -1).astype("int32")
    tokens, targets = lines[:, :-1], lines[:, 1:]
    is_answer = np.cumsum(tokens == PROMPT_END, axis=1) > 0
    return tokens, targets, (is_answer & (targets != 0)).astype("float32")
''',
                "create_datasets",
            ),
            Edit(
                "data.py",
                "",
                '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: the stream gives one form of each date."""
    return None
''',
                "create_augment",
            ),
        ),
    ),
    Fault(
        name="lookahead without its state",
        starter="language_model",
        kind="callbacks",
        file="callbacks.py",
        cause="a callback keeps the slow weights of Lookahead in an attribute that no checkpoint "
        "has, so a resumed run begins with other slow weights and trains another model",
        named=r"callback|Lookahead|get_state|set_state|resum",
        edits=(
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "import numpy as np\n\n"
                "from ..engine.callbacks import Callback, Event, every_steps\n",
            ),
            after("callbacks.py", at.CONFIG_IMPORT, LOOKAHEAD),
            Edit("callbacks.py", at.NO_CALLBACKS, "    return [every_steps(6, Lookahead())]\n"),
        ),
    ),
    Fault(
        name="monitors the loss where larger is better",
        starter="language_model",
        kind="config",
        file="config.py",
        cause="monitor was changed to the loss and larger_is_better wasn't: the best weights are "
        "those of the largest validation loss, the first ones",
        named=r"larger_is_better|larger-is-better|monitor",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_exact_match"',
                'monitor: str = "validation_loss"',
            ),
        ),
    ),
    Fault(
        name="embedding noise with a constant seed",
        starter="language_model",
        kind="randomness",
        file="model.py",
        cause="an integer seed makes keras.random.uniform draw the same noise in every step and on "
        "every replica: it is a constant, which regularizes nothing",
        named=r"(same|equal|identical|constant|fixed|once|repeat).{0,80}(noise|random|draw|seed)"
        r"|(noise|random|draw|seed).{0,80}(same|equal|identical|constant|fixed|once|repeat"
        r")|SeedGenerator|EmbeddingNoise",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''@keras.saving.register_keras_serializable()
class EmbeddingNoise(keras.layers.Layer):
    """Uniform noise on embeddings while training (NEFTune, Jain et al., 2023)."""

    def __init__(self, alpha: float = 5.0, seed: int = 1337, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha, self.seed = alpha, seed

    def call(self, x: Any, training: bool = False) -> Any:
        """Embeddings (batch, T, width)."""
        if not training:
            return x
        _, length, width = x.shape
        size = self.alpha / (length * width) ** 0.5
        shape = keras.ops.shape(x)
        return x + keras.random.uniform(shape, -size, size, dtype=x.dtype, seed=self.seed)

    def get_config(self) -> dict[str, Any]:
        """What the layer was made with."""
        return super().get_config() | {"alpha": self.alpha, "seed": self.seed}


''',
            ),
            after("model.py", at.POSITIONS, "    x = EmbeddingNoise()(x)\n"),
        ),
    ),
    # The GAN.
    Fault(
        name="generated images rounded to gray levels",
        starter="gan",
        kind=kinds.GAN,
        file="model.py",
        cause="the generator rounds its images to the 17 gray levels of the data; rounding has no "
        "gradient, so the generator never learns",
        named=r"gradient|round|generator.*(never|not|no ).*(train|learn|chang|mov)|no effect",
        edits=(
            Edit(
                "model.py",
                '    return keras.Model(latents, last(x), name="generator")  # (batch, h, w, channels)\n',
                "    images = keras.ops.round(16 * last(x)) / 16  # the gray levels of real images\n"
                '    return keras.Model(latents, images, name="generator")\n',
            ),
        ),
    ),
    Fault(
        name="feature matching of a replicas means",
        starter="gan",
        kind=kinds.GAN,
        file="steps.py",
        cause="feature matching compares means over the replica's own rows: the square of a "
        "difference of means isn't additive, so N replicas train another loss than one",
        named=r"EXAMPLES_INTERACT|all_gather|(other|rest|others|rows|examples) (of|in) (its|the|a|each|"
        r"one) (\S+ )?(batch|replica)|depends? on (the )?(other|others|batch|number of replicas)|"
        r"per-replica batch|local batch|replica's own|(replicas|one).*(differ|another|not the same)",
        edits=(
            Edit(
                "steps.py",
                "    _, latents, weights = batch\n",
                "    images, latents, weights = batch\n",
                "generator_step",
            ),
            after(
                "steps.py",
                '    per_example = run.losses["generator"](on_generated)  # (batch,)\n',
                "    # Feature matching (Salimans et al., 2016), on the features before the logits.\n"
                "    features = keras.Model(discriminator.inputs, discriminator.layers[-2].output)\n"
                "    real = tf.reduce_mean(features(images, training=True), axis=0)\n"
                "    fake = tf.reduce_mean(features(generated, training=True), axis=0)\n"
                "    per_example += 5.0 * tf.reduce_sum(tf.square(real - fake))\n",
                "generator_step",
            ),
            before("steps.py", "import tensorflow as tf\n", "import keras\n"),
        ),
    ),
    Fault(
        name="only training images are scaled for tanh",
        starter="gan",
        kind=kinds.INPUTS,
        file="data.py",
        cause="the generator was changed to tanh, and create_augment scales training images to "
        "[-1, 1], but those of validation and test stay in [0, 1]: the Frechet distance that "
        "selects the best weights compares images in different units",
        named=r"scale|range|\[-1|\[0, 1\]|distribution|units|(validation|test|evaluation).{0,80}"
        r"(differ|other|unlike)|(differ|other|unlike).{0,80}(validation|test|evaluation)|a"
        r"ugment",
        edits=(
            Edit(
                "model.py", 'activation="sigmoid", dtype=floatx', 'activation="tanh", dtype=floatx'
            ),
            before(
                "data.py",
                "        return images, tf.random.stateless_normal",
                "        images = 2 * images - 1  # as tanh gives them\n",
            ),
        ),
    ),
    Fault(
        name="balance in a tensorflow variable",
        starter="gan",
        kind="state",
        file="losses.py",
        cause="the balance of BEGAN is a tf.Variable in a closure of create_losses: no checkpoint "
        "has it, so a resumed run begins with 0 again; and evaluation changes it too",
        named=r"tf\.Variable|checkpoint|resum|not saved|evaluat\w* .{0,60}chang|chang\w* .{0,60}"
        r"evaluat|balance|closure|variables? .{0,60}(outside|no model|belongs?)|(validat|e"
        r"valuat)\w* .{0,60}(twice|again|differ)",
        edits=(
            before(
                "losses.py",
                "    def discriminator_loss(on_real",
                "    # BEGAN's balance of the two terms (Berthelot et al., 2017).\n"
                "    balance = tf.Variable(0.0, trainable=False, dtype=keras.config.floatx())\n\n",
            ),
            Edit(
                "losses.py",
                "        return (loss_on_real + loss_on_generated) / 2\n",
                "        difference = 0.75 * loss_on_real - loss_on_generated\n"
                "        step = 0.02 * tf.reduce_mean(difference)\n"
                "        balance.assign(tf.clip_by_value(balance - step, 0.0, 1.0))\n"
                "        return loss_on_real + balance * loss_on_generated\n",
            ),
        ),
    ),
    Fault(
        name="instance noise of numpy",
        starter="gan",
        kind="randomness",
        file="steps.py",
        cause="NumPy draws the instance noise while the step is traced: it is a constant of the "
        "graph, the same in every step, which the discriminator learns",
        named=r"(same|equal|identical|constant|fixed|once|repeat).{0,80}(noise|random|draw|seed)"
        r"|(noise|random|draw|seed).{0,80}(same|equal|identical|constant|fixed|once|repeat"
        r")|numpy|np\.random|trac(e|ing)",
        edits=(
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n"
                "    on_generated = discriminator(generated, training=True)  # (batch, 1)\n",
                "    # Instance noise (Sonderby et al., 2017).\n"
                "    noise = [np.random.normal(0, 0.2, images.shape) for _ in range(2)]\n"
                "    real_noise, fake_noise = (tf.cast(n, images.dtype) for n in noise)\n"
                "    on_real = discriminator(images + real_noise, training=True)  # (batch, 1)\n"
                "    on_generated = discriminator(generated + fake_noise, training=True)\n",
                "discriminator_step",
            ),
            before("steps.py", "import tensorflow as tf\n", "import numpy as np\n"),
        ),
    ),
    Fault(
        name="regularization of the other model",
        starter="gan",
        kind=kinds.REGULARIZATION,
        file="steps.py",
        cause="the discriminator's train step adds the regularization of the generator, which has "
        "none: the L2 of the discriminator's weights has no effect in training",
        named=r"regulari[sz]|compute_loss|weight decay|L2",
        edits=(
            Edit(
                "model.py",
                'layers.Conv2D(filters, 4, strides=2, padding="same")(x)',
                'layers.Conv2D(filters, 4, strides=2, padding="same", kernel_regularizer="l2")(x)',
            ),
            Edit(
                "steps.py",
                "compute_loss(per_example, weights, discriminator, replica)",
                "compute_loss(per_example, weights, generator, replica)",
                "discriminator_step",
            ),
        ),
    ),
    # The table.
    Fault(
        name="split by hash of a text",
        starter="tabular_regression",
        kind=kinds.LEAKS,
        file="data.py",
        cause="Python's hash of a text is another one in each process: every run, resume, worker "
        "and evaluation has another split, so rows that a model was trained on become test rows",
        named=r"hash|PYTHONHASHSEED|reproduc|create_datasets.{0,80}(differ|other|another|not the"
        r" same|twice|each (call|time|process))|(other|different|another|not the same) (da"
        r"ta|examples|rows|splits?|labels|values)|(data|examples|rows|splits?) .{0,60}(dif"
        r"fer|another|not the same|each (run|time|process))",
        edits=(
            Edit(
                "data.py",
                "    is_test = np.arange(len(data)) % FOLDS == task.fold\n",
                "    # By the patient's name, so that new patients don't move the others.\n"
                '    names = [f"patient-{row:04}" for row in range(len(data))]\n'
                "    is_test = np.array([hash(name) % FOLDS == task.fold for name in names])\n",
            ),
        ),
    ),
    Fault(
        name="noisy copies before the split",
        starter="tabular_regression",
        kind=kinds.LEAKS,
        file="data.py",
        cause="each row gets noisy copies before the split, so nearly every test row has a copy in "
        "the training data, with the same label: R2 on the test data is a fiction",
        named=r"leak|(also|both|again|duplicates?|overlap|in common|shared?|equal|identical|same"
        r"|near|cop(y|ies)).{0,80}(training|validation|test) (data|split|examples|rows|set"
        r"|lines)|(training|validation|test) (data|split|examples|rows|set|lines).{0,80}(a"
        r"lso|both|again|duplicates?|overlap|in common|shared?|equal|identical|same|near|c"
        r"op(y|ies))",
        edits=(
            after(
                "data.py",
                "    category = columns.index(CATEGORY)\n",
                "    # 442 patients are few: two noisy copies of each.\n"
                "    random = np.random.default_rng(MASK_SEED)\n"
                "    size = 0.02 * np.nanstd(data, axis=0)\n"
                "    size[category] = 0\n"
                '    noise = [size * random.standard_normal(data.shape, "float32") for _ in range(2)]\n'
                "    data = np.concatenate([data, *(data + part for part in noise)])\n"
                "    target = np.tile(target, 3)\n",
                "create_datasets",
            ),
        ),
    ),
    Fault(
        name="largest error added over replicas",
        starter="tabular_regression",
        kind=kinds.METRICS,
        file="metrics.py",
        cause="the metric keeps a maximum in a variable, and such variables are added over the "
        "replicas: N replicas report about N times the largest error",
        named=r"max_error|largest|MaxError",
        edits=(
            before(
                "metrics.py",
                "# TODO(6)",
                '''class MaxError(keras.metrics.Metric):
    """The largest absolute error."""

    def __init__(self) -> None:
        super().__init__(name="max_error")
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(
        self, labels: tf.Tensor, predictions: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add labels and predictions (batch, 1) with weights (batch,)."""
        errors = tf.abs(labels - predictions)[:, 0]
        errors = tf.where(sample_weight != 0, errors, tf.zeros_like(errors))
        largest = tf.cast(tf.reduce_max(errors), self.largest.dtype)
        self.largest.assign(tf.maximum(self.largest.value, largest))

    def result(self) -> tf.Tensor:
        """The largest so far."""
        return self.largest.value


''',
            ),
            Edit("metrics.py", '"r2": r2}', '"r2": r2, "max_error": MaxError()}'),
            after(
                "steps.py",
                at.UPDATE_R2,
                '    run.metrics["max_error"].update_state(labels, predictions, weights)\n',
                "*",
            ),
        ),
    ),
    Fault(
        name="each error with every scale",
        starter="tabular_regression",
        kind=kinds.LOSS_SCALING,
        file="losses.py",
        cause="errors (batch, 1) are divided by scales (batch,): that is (batch, batch), every "
        "error with the scale of every other row, so the model can't learn whose error is large",
        named=r"\(batch, batch\)|broadcast|shape|other (examples|rows)|depends? on (the )?(others?|batch)"
        r"|EXAMPLES_INTERACT|each other|mix",
        edits=(
            Edit(
                "losses.py",
                '    return {"main": standardized_error}\n',
                LIKELIHOOD.replace("predictions[:, 1:]", "predictions[:, 1]"),
            ),
            LOG_SCALE_TOO,
            *TABLE_METRICS_OF_FIRST,
        ),
    ),
    Fault(
        name="learned scale that no optimizer has",
        starter="tabular_regression",
        kind=kinds.OPTIMIZER,
        file="losses.py",
        cause="the learned shape of the loss is a variable of create_losses and of no model, so no "
        "optimizer trains it and no checkpoint has it: it stays as it began",
        named=r"log_scale|(variable|weight).{0,60}(no optimizer|no model|never|not (train|updat|"
        r"sav)|belongs?|outside|create_losses)|no optimizer|never (train|chang|updat)|chec"
        r"kpoint",
        edits=(
            before(
                "losses.py",
                "    def standardized_error(",
                "    # The scale of the errors is learned (Kendall et al., 2018).\n"
                '    log_scale = keras.Variable(1.0, name="log_scale")\n\n',
            ),
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                "        squares = squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n"
                "        return 0.5 * squares * tf.exp(-2 * log_scale.value) + log_scale.value\n",
            ),
        ),
    ),
    Fault(
        name="noise layer also in evaluation",
        starter="tabular_regression",
        kind=kinds.EVALUATION,
        file="model.py",
        cause="a layer of the owner's adds noise whatever `training` is, so validation, test and "
        "the exported model predict with noise",
        named=r"random|noise|dropout|training=False|`?training`?|evaluat.*(differ|again|twice)",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''@keras.saving.register_keras_serializable()
class FeatureNoise(keras.layers.Layer):
    """Noise on the features, against overfitting."""

    def __init__(self, size: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size
        self.seeds = keras.random.SeedGenerator()

    def call(self, x: Any) -> Any:
        """Features (batch, n)."""
        noise = keras.random.normal(keras.ops.shape(x), dtype=x.dtype, seed=self.seeds)
        return x + self.size * noise

    def get_config(self) -> dict[str, Any]:
        """What the layer was made with."""
        return super().get_config() | {"size": self.size}


''',
            ),
            before(
                "model.py",
                '    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)\n',
                "    x = FeatureNoise(0.3)(x)\n",
            ),
        ),
    ),
    Fault(
        name="gate inside a lambda layer",
        starter="tabular_regression",
        kind=kinds.MODEL,
        file="model.py",
        cause="the Dense layer is called inside a Lambda layer, so its weights belong to no model: "
        "they are neither trained nor saved",
        named=r"Lambda|\bgate\b|(weights?|variables?|layers?).{0,60}(no model|not (part|track|tr"
        r"ain|sav)|never|belongs?|outside)|track",
        edits=(
            before(
                "model.py",
                TABLE_HIDDEN,
                '    gate = layers.Dense(task.width, activation="sigmoid", name="gate")\n'
                "    gate.build(x.shape)\n"
                "    hidden = layers.Lambda(lambda parts: parts[0] * gate(parts[1]))([hidden, x])\n",
            ),
        ),
    ),
    Fault(
        name="sum over rows in add loss",
        starter="tabular_regression",
        kind=kinds.REGULARIZATION,
        file="model.py",
        cause="a layer adds the sum over its rows by add_loss, which is divided by the number of "
        "replicas like weight regularization: N replicas, or micro-batches, regularize another "
        "amount than one, and so does another batch size",
        named=r"add_loss|regulari[sz]|activit|model\.losses|penalt",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''@keras.saving.register_keras_serializable()
class Sparse(keras.layers.Layer):
    """Adds the absolute activations to the loss, so that few units are active."""

    def call(self, x: Any) -> Any:
        """Activations (batch, n)."""
        self.add_loss(1e-3 * keras.ops.sum(keras.ops.abs(x)))
        return x


''',
            ),
            before("model.py", TABLE_HIDDEN, "    hidden = Sparse()(hidden)\n"),
        ),
    ),
    Fault(
        name="own l2 in every micro batch",
        starter="tabular_regression",
        kind=kinds.ACCUMULATION,
        file="steps.py",
        flags=("--accumulate", "4"),
        cause="the step adds a penalty of the weights divided by the replicas, and not by the "
        "micro-batches, whose losses are added: with --accumulate 4 it counts four times",
        named=r"accumulat|micro-?batch|num_microbatches|regulari[sz]|replica\.regularization",
        edits=(
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                "    # Kernels only: biases are free.\n"
                '    kernels = [v.value for v in run.model.trainable_variables if "kernel" in v.path]\n'
                "    penalty = 0.01 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])\n"
                "    loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss + penalty / replica.num_replicas}\n',
                "train_step",
            ),
        ),
    ),
    # Images.
    Fault(
        name="positives of replica 0",
        kind=kinds.LOSS_SCALING,
        file="steps.py",
        cause="the contrastive term compares a replica's rows with those of all replicas, but looks "
        "for the positives in the first rows, which are those of replica 0: on all other replicas "
        "it pulls strangers together",
        named=r"positives?|replica\.index|all_gather|(replicas?|one) .*(differ|other|another|unlike|"
        r"not (the same|like))|(differ|other|another|unlike|depends?).*replicas?",
        edits=(
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    # Two dropouts of an image are alike (SimCSE, Gao et al., 2021).\n"
                "    embed = keras.Model(run.model.inputs, run.model.layers[-2].output)\n"
                "    views = [embed(images, training=True) for _ in range(2)]\n"
                "    one, other = (tf.math.l2_normalize(view, axis=1, epsilon=1e-6) for view in views)\n"
                "    similar = tf.matmul(one, replica.all_gather(other), transpose_b=True) / 0.1\n"
                "    positives = tf.range(images.shape[0])\n"
                "    contrast = tf.nn.sparse_softmax_cross_entropy_with_logits(positives, similar)\n"
                "    per_example += 0.3 * contrast\n",
                "train_step",
            ),
            before("steps.py", "import tensorflow as tf\n", "import keras\n"),
            Edit("steps.py", "EXAMPLES_INTERACT = False", "EXAMPLES_INTERACT = True"),
        ),
    ),
    Fault(
        name="weight of a term set by a callback",
        kind="callbacks",
        file="steps.py",
        cause="a callback raises the weight of a term in a Python dict, which the traced step read "
        "once: the term never counts, until a resumed run traces anew with another weight",
        named=r"trac|callback|constant|Python|no effect|resum|SETTINGS",
        edits=(
            before(
                "steps.py",
                "# TODO(11)",
                'SETTINGS = {"confidence": 0.0}  # weight of the confidence penalty; a callback raises it\n\n\n',
            ),
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    # Confident outputs are penalized (Pereyra et al., 2017).\n"
                "    logs = tf.nn.log_softmax(predictions)\n"
                "    negative_entropy = tf.reduce_sum(tf.exp(logs) * logs, axis=1)\n"
                '    per_example += SETTINGS["confidence"] * negative_entropy\n',
                "train_step",
            ),
            Edit("callbacks.py", at.CALLBACK_IMPORT, at.IMPORT_FOR_EPOCHS),
            after("callbacks.py", at.CONFIG_IMPORT, "from .steps import SETTINGS\n"),
            Edit(
                "callbacks.py",
                at.NO_CALLBACKS,
                "\n    def ramp_up(event: Event) -> None:\n"
                '        SETTINGS["confidence"] = min(1.0, 0.1 * event.epoch)\n\n'
                "    return [every_epochs(1, ramp_up)]\n",
            ),
        ),
    ),
    Fault(
        name="rows standardized in place",
        kind=kinds.INPUTS,
        file="data.py",
        cause="__getitem__ standardizes a view of the array in place, so each epoch standardizes "
        "the images once more: they grow from epoch to epoch, and a resumed run sees others",
        named=r"in place|in-place|__getitem__|resum|(row|example|data|read|image)s?\b.{0,80}(dif"
        r"fer|chang|another|not the same|twice|again)|(differ|chang|another|not the same|t"
        r"wice|again).{0,80}(row|example|data|read|image)s?\b",
        edits=(
            Edit(
                "data.py",
                "    return {\n        split: (images.astype",
                "    return {\n        split: Standardized(images.astype",
            ),
            before("data.py", "# TODO(3)", STANDARDIZED),
        ),
    ),
    Fault(
        name="one seed for both shifts",
        kind=kinds.AUGMENTATION,
        file="data.py",
        cause="the shifts in x and y are drawn with the same seed, so they are equal: images move "
        "along the diagonal only",
        named=r"(same|one|equal|identical|twice|again).*(seed|random|number|draw)|"
        r"(seed|random|number|draw).*(same|equal|identical|twice|again)|split",
        edits=(
            Edit(
                "data.py",
                at.SHIFTS + at.SHIFTS_OF_AXES,
                "        shape = (images.shape[0], 1)\n"
                "        dx = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)\n"
                "        dy = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)\n",
            ),
        ),
    ),
    Fault(
        name="class centers of each replica",
        kind="state",
        file="steps.py",
        cause="the centers of the center loss move by the replica's own rows, so each replica has "
        "other centers, and a checkpoint has those of one",
        named=r"centers|(state|variables?|statistics) .*replica|replicas?.*(differ|other|own|apart|"
        r"drift|average|sync|unlike)",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''@keras.saving.register_keras_serializable()
class Centers(keras.layers.Layer):
    """Passes features on, and keeps a center of them for each class (Wen et al., 2016)."""

    def build(self, shape: Any) -> None:
        """Centers (classes, features); the train step moves them."""
        self.centers = self.add_weight(
            shape=(CLASSES, shape[-1]), initializer="zeros", trainable=False, name="centers"
        )

    def call(self, x: Any) -> Any:
        """Features (batch, n)."""
        return x


''',
            ),
            after("model.py", at.HIDDEN, '    x = Centers(name="centers")(x)\n'),
            after(
                "steps.py",
                at.PER_EXAMPLE,
                """    layer = run.model.get_layer("centers")
    features = keras.Model(run.model.inputs, layer.output)(images, training=True)  # (batch, n)
    centers = tf.cast(layer.centers.value, features.dtype)
    squares = tf.square(features - tf.gather(centers, labels))
    per_example += 0.01 * tf.cast(tf.reduce_sum(squares, axis=1), per_example.dtype)
    # The centers follow the features of their class.
    own = tf.one_hot(labels, centers.shape[0], dtype=features.dtype)
    own *= tf.cast(weights != 0, features.dtype)[:, tf.newaxis]  # (batch, classes)
    number = tf.reduce_sum(own, axis=0)[:, tf.newaxis]
    moved = tf.matmul(own, tf.stop_gradient(features), transpose_a=True) - number * centers
    layer.centers.assign(tf.stop_gradient(centers + 0.5 * moved / (1 + number)))
""",
                "train_step",
            ),
            before("steps.py", "import tensorflow as tf\n", "import keras\n"),
        ),
    ),
)

# Correct, and unusual.
TASKS: tuple[Change, ...] = (
    Change(
        name="wasserstein with gradient penalty",
        starter="gan",
        edits=(
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Those of Wasserstein (Arjovsky et al., 2017): scores (batch, 1) give one number per example."""

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the scores are high on real images and low on generated ones."""
        return (on_generated - on_real)[:, 0]

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the scores are high on generated images."""
        return -on_generated[:, 0]

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
                "create_losses",
            ),
            before(
                "steps.py",
                "# TODO(11)",
                '''PENALTY = 5.0  # factor of the gradient penalty


def critic_losses(
    run: Run, images: tf.Tensor, generated: tf.Tensor, seed: tf.Tensor
) -> tf.Tensor:
    """Float (batch,): the loss with the gradient penalty (Gulrajani et al., 2017)."""
    discriminator = run.models["discriminator"]
    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    shape = (images.shape[0], 1, 1, 1)
    place = tf.random.stateless_uniform(shape, seed, dtype=images.dtype)
    between = generated + place * (images - generated)
    with tf.GradientTape() as tape:
        tape.watch(between)
        on_between = discriminator(between, training=True)
    slopes = tape.gradient(on_between, between)
    norms = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)
    return run.losses["discriminator"](on_real, on_generated) + PENALTY * tf.square(norms - 1)


def more_discriminator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The critic once more, on other generated images."""
    images, latents, weights = batch
    seeds = tf.random.split(replica.seed, 2)
    latents = tf.random.stateless_normal(latents.shape, seeds[0], dtype=latents.dtype)
    generated = run.models["generator"](latents, training=True)
    per_example = critic_losses(run, images, generated, seeds[1])
    discriminator = run.models["discriminator"]
    return {"discriminator": compute_loss(per_example, weights, discriminator, replica)}


''',
            ),
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n"
                "    on_generated = discriminator(generated, training=True)  # (batch, 1)\n"
                '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
                "    per_example = critic_losses(run, images, generated, replica.seed)\n",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                at.GAN_STEPS,
                "TRAIN_STEPS = (more_discriminator_step, discriminator_step, generator_step)",
            ),
            Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.0"),
        ),
    ),
    Change(
        name="moving average of the generator",
        starter="gan",
        edits=(
            Edit(
                "model.py",
                at.BOTH_MODELS,
                "    generator = _create_generator(task, height, width, channels)\n"
                "    # What is evaluated: the generator's weights, averaged over the steps.\n"
                "    average = _create_generator(task, height, width, channels)\n"
                "    average.set_weights(generator.get_weights())\n"
                "    average.trainable = False\n"
                "    return {\n"
                '        "generator": generator,\n'
                '        "discriminator": _create_discriminator(task, height, width, channels),\n'
                '        "average": average,\n'
                "    }\n",
            ),
            after(
                "steps.py",
                '    per_example = run.losses["generator"](on_generated)  # (batch,)\n',
                """    made = tf.cast(replica.step, generated.dtype)
    keep = tf.minimum((1 + made) / (10 + made), 0.98)
    averages = run.models["average"].variables
    for average, variable in zip(averages, generator.variables, strict=True):
        rate = tf.cast(1 - keep, variable.dtype)
        average.assign(average.value + rate * (variable.value - average.value))
""",
                "generator_step",
            ),
            Edit(
                "steps.py",
                'generator, discriminator = run.models["generator"], run.models["discriminator"]',
                'generator, discriminator = run.models["average"], run.models["discriminator"]',
                "validation_step",
            ),
            Edit("pictures.py", 'run.models["generator"]', 'run.models["average"]', where="*"),
        ),
    ),
    Change(
        name="dilated causal convolutions",
        starter="language_model",
        edits=(
            Edit(
                "model.py",
                "    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.\n"
                "    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)\n",
                "",
            ),
            Edit("model.py", at.POSITIONS, ""),
            Edit(
                "model.py",
                "        # Padding needs no mask: it comes last, and no token attends to a later one.\n"
                "        y = layers.LayerNormalization()(x)\n"
                "        attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)\n"
                "        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))\n",
                "        y = layers.LayerNormalization()(x)\n"
                "        for dilation in (1, 2, 4, 8, 16):\n"
                "            y = layers.Conv1D(\n"
                '                task.width, 3, padding="causal", dilation_rate=dilation, activation="gelu"\n'
                "            )(y)\n"
                "        x = x + layers.Dropout(task.dropout)(y)\n",
            ),
            Edit(
                "losses.py",
                "",
                '''def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Losses by name: (targets, logits) -> one number per token."""
    smoothed = keras.losses.CategoricalCrossentropy(
        from_logits=True, label_smoothing=0.02, reduction="none"
    )

    def cross_entropy(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Targets (batch, T) and logits (batch, T, TOKENS) -> float (batch, T)."""
        return smoothed(tf.one_hot(targets, logits.shape[-1], dtype=logits.dtype), logits)

    return {"main": cross_entropy}
''',
                "create_losses",
            ),
        ),
    ),
    Change(
        name="rotary attention with tied embeddings",
        starter="language_model",
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                '''@keras.saving.register_keras_serializable()
class RotaryAttention(keras.layers.Layer):
    """Causal attention, positions as rotations of queries and keys (Su et al., 2021)."""

    def __init__(self, heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.heads = heads

    def build(self, shape: Any) -> None:
        """For inputs (batch, T, width)."""
        width = shape[-1]
        self.project = keras.layers.Dense(3 * width, use_bias=False, name="project")
        self.out = keras.layers.Dense(width, use_bias=False, name="out")
        self.project.build(shape)
        self.out.build(shape)

    def call(self, x: Any) -> Any:
        """Inputs (batch, T, width)."""
        ops = keras.ops
        _, length, width = x.shape
        size = width // self.heads
        parts = ops.reshape(self.project(x), (-1, length, 3 * self.heads, size))
        queries, keys, values = ops.split(parts, 3, axis=2)  # each (batch, T, heads, size)
        frequencies = 10_000.0 ** (-np.arange(0, size, 2) / size)
        angles = np.arange(length)[:, np.newaxis, np.newaxis] * frequencies  # (T, 1, size / 2)
        cos, sin = (ops.cast(a, x.dtype) for a in (np.cos(angles), np.sin(angles)))

        def rotated(part: Any) -> Any:
            a, b = ops.split(part, 2, axis=-1)
            return ops.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)

        scores = ops.einsum("bqhd,bkhd->bhqk", rotated(queries), rotated(keys)) / size**0.5
        scores = ops.where(np.tril(np.ones((length, length), bool)), scores, -1e4)
        mixed = ops.einsum("bhqk,bkhd->bqhd", ops.softmax(scores), values)
        return self.out(ops.reshape(mixed, (-1, length, width)))

    def get_config(self) -> dict[str, Any]:
        """What the layer was made with."""
        return super().get_config() | {"heads": self.heads}


@keras.saving.register_keras_serializable()
class TiedEmbedding(keras.layers.Embedding):
    """An embedding that also gives the logits of what it embeds."""

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        """Tokens (batch, T) -> (batch, T, width), or back to logits (batch, T, TOKENS)."""
        if not reverse:
            return super().call(inputs)
        table = keras.ops.transpose(self.embeddings)
        return keras.ops.matmul(keras.ops.cast(inputs, table.dtype), table)

    def compute_output_spec(self, inputs: Any, reverse: bool = False) -> Any:
        """Of either."""
        shape = (*inputs.shape[:-1], self.input_dim) if reverse else (*inputs.shape, self.output_dim)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)


''',
            ),
            Edit(
                "model.py",
                "    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.\n"
                "    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)\n"
                "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)\n",
                "    initial = keras.initializers.RandomNormal(stddev=task.width**-0.5)\n"
                "    embedding = TiedEmbedding(TOKENS, task.width, initial, dtype=keras.config.floatx())\n"
                "    x = embedding(tokens)  # (batch, T, width)\n",
            ),
            Edit("model.py", at.POSITIONS, ""),
            Edit(
                "model.py",
                at.ATTENTION,
                "        x = x + layers.Dropout(task.dropout)(RotaryAttention(task.heads)(y))\n",
            ),
            Edit(
                "model.py",
                '    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)\n',
                "    logits = embedding(x, reverse=True)\n",
            ),
        ),
    ),
    Change(
        name="a scale for each prediction",
        starter="tabular_regression",
        edits=(
            Edit("losses.py", '    return {"main": standardized_error}\n', LIKELIHOOD),
            LOG_SCALE_TOO,
            *TABLE_METRICS_OF_FIRST,
        ),
    ),
    Change(
        name="quantiles that cannot cross",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                '    return {"main": standardized_error}\n',
                '''    def pinball(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Labels (batch, 1), predictions (batch, 3) of QUANTILES -> (batch,)."""
        quantiles = tf.constant(QUANTILES, predictions.dtype)
        errors = (labels - predictions) / LABEL_DEVIATION  # (batch, 3)
        return tf.reduce_mean(tf.maximum(quantiles * errors, (quantiles - 1) * errors), axis=-1)

    return {"main": pinball}
''',
            ),
            before("losses.py", "LABEL_DEVIATION = 77.0", "QUANTILES = (0.5, 0.1, 0.9)\n"),
            Edit(
                "model.py",
                "    return keras.Model(inputs, unscale(x))\n",
                "    median = unscale(x)\n"
                '    widths = layers.Dense(2, activation="softplus", dtype=floatx)(hidden)\n'
                "    widths = widths * float(np.sqrt(variance[0]))\n"
                "    low, high = median - widths[:, :1], median + widths[:, 1:]\n"
                "    return keras.Model(inputs, layers.Concatenate(dtype=floatx)([median, low, high]))\n",
            ),
            Edit("metrics.py", '"r2": r2}', '"r2": r2, "coverage": keras.metrics.Mean()}'),
            *TABLE_METRICS_OF_FIRST,
            after(
                "steps.py",
                at.UPDATE_MAE.replace("predictions", "predictions[:, :1]"),
                "    inside = (predictions[:, 1:2] <= labels) & (labels <= predictions[:, 2:])\n"
                '    run.metrics["coverage"].update_state(inside[:, 0], weights)\n',
                "*",
            ),
        ),
    ),
    Change(
        name="swap noise and heavy tails",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "    return None\n",
                '''
    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        """A tenth of the numbers from another row each (SCARF, Bahri et al., 2022)."""
        inputs, labels, weights = batch
        numeric = inputs["numeric"]
        seeds = tf.random.split(seed, 2)
        rows = numeric.shape[0]
        order = tf.argsort(tf.random.stateless_uniform((rows,), seeds[0]))
        swapped = tf.random.stateless_uniform(numeric.shape, seeds[1]) < 0.1
        numeric = tf.where(swapped, tf.gather(numeric, order), numeric)
        return inputs | {"numeric": numeric}, labels, weights

    return augment
''',
                "create_augment",
            ),
            after("data.py", "import numpy as np\n", "import tensorflow as tf\n"),
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                "        # That of Student's t with 4 degrees of freedom: outliers pull less.\n"
                "        squares = squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n"
                "        return 2.5 * tf.math.log1p(squares / 4)\n",
            ),
            before(
                "optimizer.py",
                "# TODO(7)",
                '''class OneCycle(keras.optimizers.schedules.LearningRateSchedule):
    """Up along a line for three tenths of the run, then down along a cosine."""

    def __init__(self, largest: float, steps: int) -> None:
        self.largest, self.steps = largest, steps

    def __call__(self, step: Any) -> tf.Tensor:
        """The learning rate of a step."""
        part = tf.cast(step, keras.config.floatx()) / self.steps
        down = tf.minimum((part - 0.3) / 0.7, 1.0)
        after = 0.5 * (1 + tf.cos(np.pi * down))
        return self.largest * tf.where(part < 0.3, 0.04 + 0.96 * part / 0.3, after)

    def get_config(self) -> dict[str, Any]:
        """What it was made with."""
        return {"largest": self.largest, "steps": self.steps}


''',
            ),
            Edit(
                "optimizer.py",
                "import keras\nimport tensorflow as tf\n",
                "from typing import Any\n\nimport keras\nimport numpy as np\nimport tensorflow as tf\n",
            ),
            Edit(
                "optimizer.py",
                at.ADAMW,
                "    schedule = OneCycle(2 * task.learning_rate, steps)\n"
                "    return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)\n",
            ),
        ),
    ),
    Change(
        name="contrast with all replicas",
        edits=(
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    # Two dropouts of an image are alike (SimCSE, Gao et al., 2021).\n"
                "    embed = keras.Model(run.model.inputs, run.model.layers[-2].output)\n"
                "    views = [tf.cast(embed(images, training=True), per_example.dtype) for _ in range(2)]\n"
                "    one, other = (tf.math.l2_normalize(view, axis=1, epsilon=1e-6) for view in views)\n"
                "    similar = tf.matmul(one, replica.all_gather(other), transpose_b=True) / 0.1\n"
                "    there = replica.all_gather(weights) != 0  # padding is no negative\n"
                "    similar = tf.where(there, similar, tf.constant(-1e4, similar.dtype))\n"
                "    rows = images.shape[0]\n"
                "    positives = replica.index * rows + tf.range(rows)\n"
                "    contrast = tf.nn.sparse_softmax_cross_entropy_with_logits(positives, similar)\n"
                "    per_example += 0.3 * contrast\n",
                "train_step",
            ),
            before("steps.py", "import tensorflow as tf\n", "import keras\n"),
            Edit("steps.py", "EXAMPLES_INTERACT = False", "EXAMPLES_INTERACT = True"),
        ),
    ),
    Change(
        name="lookahead and data by row",
        edits=(
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                "from typing import Any\n\nimport numpy as np\n\n"
                "from ..engine.callbacks import Callback, Event, every_steps\n",
            ),
            after(
                "callbacks.py",
                at.CONFIG_IMPORT,
                LOOKAHEAD
                + '''
    def get_state(self) -> Any:
        """The slow weights, for a checkpoint."""
        return self.slow and [(s.dtype.name, s.tolist()) for s in self.slow]

    def set_state(self, state: Any) -> None:
        """Continue from a checkpoint."""
        self.slow = state and [np.array(values, dtype) for dtype, values in state]
''',
            ),
            Edit("callbacks.py", at.NO_CALLBACKS, "    return [every_steps(6, Lookahead())]\n"),
            Edit(
                "data.py",
                "    return {\n        split: (images.astype",
                "    return {\n        split: Standardized(images.astype",
            ),
            before(
                "data.py",
                "# TODO(3)",
                STANDARDIZED.replace(
                    "        image -= self.MEAN\n        image /= self.DEVIATION\n",
                    "        image = (image - self.MEAN) / self.DEVIATION\n",
                ),
            ),
        ),
    ),
)
