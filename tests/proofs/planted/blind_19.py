"""Correct tasks of a twenty-first examiner; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import change_of

FAULTS: tuple[Fault, ...] = ()

TASKS: tuple[Change, ...] = (
    Change(
        starter="image_classification",
        name="partial labels: a training image has four candidate classes, an evaluated one its own",
        edits=(
            Edit(
                "data.py",
                """Arrays = tuple[np.ndarray, np.ndarray]  # images and labels
""",
                """CLASSES = 10
OTHERS = 3  # wrong classes among the candidates of a training image

Arrays = tuple[np.ndarray, np.ndarray]  # images and labels
""",
            ),
            Edit(
                "data.py",
                "images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).",
                "images float32 (n, h, w, 1) in [0, 1], candidates (n, 10).",
            ),
            Edit("data.py", 'labels.astype("int64"))', "_candidates(labels, split))"),
            Edit(
                "data.py",
                """def _load_digits() -> dict[str, Arrays]:
""",
                '''def _candidates(labels: np.ndarray, split: str) -> np.ndarray:
    """The classes that an image may have, float32 (n, CLASSES), 1 or 0.

    In training those are its own and OTHERS that annotators couldn't rule out; in
    evaluation its own only.
    """
    candidates = np.eye(CLASSES, dtype="float32")[labels]
    if split == "train":
        # The smallest numbers win: its own class has the only one below 0.
        draws = np.random.default_rng(0).random(candidates.shape) - candidates
        chosen = np.argsort(draws, axis=1)[:, : 1 + OTHERS]
        np.put_along_axis(candidates, chosen, 1.0, axis=1)
    return candidates


def _load_digits() -> dict[str, Arrays]:
''',
            ),
            Edit(
                "losses.py",
                """    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
""",
                '''    return {"main": candidate_loss}


def candidate_loss(candidates: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """-log of the probability of all candidates together, float (batch,).

    With a single candidate this is the usual cross-entropy.
    """
    among = tf.where(candidates > 0, logits, -1e9)
    return tf.reduce_logsumexp(logits, axis=1) - tf.reduce_logsumexp(among, axis=1)
''',
            ),
            Edit(
                "metrics.py",
                """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
                '''    return {"accuracy": keras.metrics.Mean()}


def is_candidate(candidates: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """1 where the likeliest class is a candidate, else 0, float (batch,)."""
    likeliest = tf.argmax(logits, axis=1)  # (batch,)
    return tf.gather(candidates, likeliest, axis=1, batch_dims=1)
''',
            ),
            Edit(
                "metrics.py",
                """import keras
""",
                """import keras
import tensorflow as tf
""",
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .losses import compute_loss
from .metrics import is_candidate
""",
            ),
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, predictions, weights)',
                'run.metrics["accuracy"].update_state(is_candidate(labels, predictions), weights)',
                "*",
            ),
            Edit(
                "pictures.py",
                """    draw_images(left, images, COLUMNS, list(map(str, labels)), **INK)
""",
                """    captions = ["".join(map(str, np.flatnonzero(row))) for row in labels]
    draw_images(left, images, COLUMNS, captions, **INK)
""",
            ),
            Edit(
                "pictures.py",
                """    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)
""",
                """    images, candidates, *_ = first_examples(datasets[split], MAX_EXAMPLES)
    labels = candidates.argmax(axis=-1)  # in evaluation there is one
""",
            ),
        ),
    ),
    Change(
        starter="image_classification",
        name="long-tailed training classes with logit adjustment in the train step only",
        edits=(
            Edit(
                "data.py",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
TAIL = 0.1  # images of the rarest class, for each one of the most frequent
""",
            ),
            Edit(
                "data.py",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
""",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    images, labels = splits["train"]
    kept = _long_tail(labels)
    splits["train"] = images[kept], labels[kept]
""",
            ),
            Edit(
                "data.py",
                """def _load_digits() -> dict[str, Arrays]:
""",
                '''def _long_tail(labels: np.ndarray) -> np.ndarray:
    """Rows int (n,): of each class fewer than of the one before, down to TAIL."""
    rows = [np.flatnonzero(labels == c) for c in range(10)]
    kept = [r[: round(len(r) * TAIL ** (c / 9))] for c, r in enumerate(rows)]
    return np.sort(np.concatenate(kept))


def _load_digits() -> dict[str, Arrays]:
''',
            ),
            Edit(
                "model.py",
                """    return {"shape": images.shape[1:]}
""",
                """    counts = np.bincount(datasets["train"][1], minlength=CLASSES) + 1
    return {"shape": images.shape[1:], "log_prior": np.log(counts / counts.sum())}
""",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["main"](labels, predictions)  # (batch,)
""",
                """    # Logit adjustment (Menon et al., 2021): the prior of the training classes is
    # explained here, so that the model itself doesn't learn it. Evaluation, where all
    # classes are as frequent, takes the logits as they are.
    log_prior = tf.cast(run.adapted["log_prior"], predictions.dtype)  # (classes,)
    per_example = run.losses["main"](labels, predictions + log_prior)  # (batch,)
""",
                "train_step",
            ),
        ),
    ),
    Change(
        starter="segmentation",
        name="sparse annotation: 8% of the training pixels are labeled, the rest is ignored",
        edits=(
            Edit(
                "data.py",
                "FAINT, DARK = 0.375, 0.5",
                """KNOWN, KNOWN_SEED = 0.08, 3  # fraction of the training pixels that are labelled
FAINT, DARK = 0.375, 0.5""",
            ),
            Edit(
                "data.py",
                """        return {
            split: _compose(""",
                """        splits = {
            split: _compose(""",
            ),
            Edit(
                "data.py",
                """            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
""",
                """            for seed, (split, canvases) in enumerate(CANVASES.items())
        }
    # As if someone had clicked on a few pixels of each training canvas; evaluation has
    # whole labels.
    images, labels = splits["train"]
    known = np.random.default_rng(KNOWN_SEED).random(labels.shape) < KNOWN
    splits["train"] = images, np.where(known, labels, IGNORED).astype(np.int32)
    return splits
""",
            ),
        ),
    ),
    Change(
        starter="segmentation",
        name="factorized softmax: the model gives log-probabilities, the loss takes them as logits",
        edits=(
            Edit(
                "model.py",
                """    logits = layers.Conv2D(CLASSES, 1, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits)
""",
                """    # First whether a pixel is background, then which digit it is if not: their logs add
    # up to the log-probabilities of all classes. A softmax of these gives them back.
    floatx, ops = keras.config.floatx(), keras.ops
    empty = layers.Conv2D(1, 1, dtype=floatx, name="empty")(x)  # (batch, h, w, 1)
    digit = layers.Conv2D(CLASSES - 1, 1, dtype=floatx, name="digit")(x)
    of_digits = ops.log_sigmoid(-empty) + ops.log_softmax(digit, axis=-1)
    together = layers.Concatenate(dtype=floatx, name="logits")
    return keras.Model(images, together([ops.log_sigmoid(empty), of_digits]))
""",
            ),
        ),
    ),
    Change(
        starter="language_model",
        name="prompt characters are hidden at random inside the train step",
        edits=(
            Edit(
                "steps.py",
                """Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, targets and weights, each (batch, T)
""",
                '''Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens, targets and weights, each (batch, T)
HIDDEN = 1  # a code that no character of a line has
HIDDEN_SHARE = 0.04  # of the characters of a prompt, in training


def hide(tokens: tf.Tensor, weights: tf.Tensor, replica: Replica) -> tf.Tensor:
    """Tokens (batch, T) with some characters of the prompts as HIDDEN.

    The end of a prompt and its answer, where weights aren't 0, stay as they are.
    """
    draws = tf.random.stateless_uniform(tokens.shape, replica.seed)
    hidden = (draws < HIDDEN_SHARE) & (weights == 0) & (tokens != 0)
    return tf.where(hidden, HIDDEN, tokens)
''',
            ),
            Edit(
                "steps.py",
                """    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)
""",
                """    logits = run.model(hide(tokens, weights, replica), training=True)  # (batch, T, TOKENS)
""",
            ),
        ),
    ),
    Change(
        starter="language_model",
        name="punctuation of the answer has a quarter of the weight of a digit",
        edits=(
            Edit(
                "data.py",
                """ANSWER_LENGTH = len("1979-05-03\\n")
""",
                """ANSWER_LENGTH = len("1979-05-03\\n")
SIGN_WEIGHT = 0.25  # of a dash and the line feed, which are always at the same place
""",
            ),
            Edit(
                "data.py",
                """weights are 1 for tokens of the answer, else 0.
""",
                """weights are 1 for digits of the
    answer, SIGN_WEIGHT for its other tokens, else 0.
""",
            ),
            Edit(
                "data.py",
                """    weights = (is_answer & (targets != 0)).astype("float32")
""",
                """    importance = np.where(np.isin(targets, [ord("-"), LINE_END]), SIGN_WEIGHT, 1.0)
    weights = (importance * (is_answer & (targets != 0))).astype("float32")
""",
            ),
        ),
    ),
    Change(
        starter="gan",
        name="R1 penalty: the discriminator's squared slope at real images, by a tape in the step",
        edits=(
            Edit(
                "steps.py",
                """import tensorflow as tf
""",
                """import keras
import tensorflow as tf
""",
            ),
            Edit(
                "steps.py",
                """Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)
""",
                '''Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)
R1 = 0.1  # twice the factor of the penalty (Mescheder et al., 2018)


def judge_real(
    discriminator: keras.Model, images: tf.Tensor, *, training: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Logits (batch, 1), and the squared norm of their gradient at each image (batch,).

    The gradient of the sum of the logits is that of each one, since no image changes the
    logit of another.
    """
    with tf.GradientTape() as tape:
        tape.watch(images)
        logits = discriminator(images, training=training)
    slopes = tape.gradient(logits, images)  # (batch, h, w, 1)
    return logits, tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3])
''',
            ),
            Edit(
                "steps.py",
                """    on_real = discriminator(images, training=True)  # (batch, 1)
""",
                """    on_real, slope = judge_real(discriminator, images, training=True)
""",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
                """    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    per_example += R1 / 2 * slope
""",
            ),
            Edit(
                "steps.py",
                """    on_real = discriminator(images, training=False)  # (batch, 1)
""",
                """    on_real, slope = judge_real(discriminator, images, training=False)
""",
            ),
            Edit(
                "steps.py",
                """    discriminator_losses = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
                """    discriminator_losses = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    discriminator_losses += R1 / 2 * slope
""",
            ),
        ),
    ),
    Change(
        starter="gan",
        name="instance noise on real and generated images that fades over the first 1,000 steps",
        edits=(
            Edit(
                "steps.py",
                """Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)
""",
                '''Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)
NOISE, NOISE_STEPS = 0.3, 1_000  # standard deviation at the start; steps until it is 0


def instance_noise(images: tf.Tensor, replica: Replica, number: int) -> tf.Tensor:
    """Noise for `number` times these images, float (batch, number, h, w, 1).

    Real and generated images overlap with it, so that the discriminator can't be sure
    (Sønderby et al., 2017).
    """
    level = NOISE * tf.maximum(1 - tf.cast(replica.step, images.dtype) / NOISE_STEPS, 0)
    shape = (images.shape[0], number, *images.shape[1:])
    return level * tf.random.stateless_normal(shape, replica.seed, dtype=images.dtype)
''',
            ),
            Edit(
                "steps.py",
                """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
""",
                """    noise = instance_noise(images, replica, 2)
    on_real = discriminator(images + noise[:, 0], training=True)  # (batch, 1)
    on_generated = discriminator(generated + noise[:, 1], training=True)  # (batch, 1)
""",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                """    on_generated = discriminator(generated, training=True)  # (batch, 1)
""",
                """    noise = instance_noise(generated, replica, 1)
    on_generated = discriminator(generated + noise[:, 0], training=True)  # (batch, 1)
""",
                "generator_step",
            ),
        ),
    ),
    Change(
        starter="tabular_regression",
        name="heteroscedastic regression: mean and log deviation by Gaussian likelihood",
        edits=(
            Edit(
                "model.py",
                """\"sex": int64 (batch,)} -> float32 (batch, 1).
""",
                """\"sex": int64 (batch,)} -> float32 (batch, 2).
""",
            ),
            Edit(
                "model.py",
                """    model needs no scaling around it.
""",
                """    model needs no scaling around it. The second column is the log of the deviation that it
    expects, divided by LABEL_DEVIATION.
""",
            ),
            Edit(
                "model.py",
                """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
""",
                """    x = layers.Concatenate()([x, hidden])
    # From 0 at the start, and between -3 and 3, so that no deviation vanishes.
    spread = layers.Dense(1, dtype=floatx, kernel_initializer="zeros", name="spread")(x)
    spread = 3.0 * ops.tanh(spread / 3.0)  # (batch, 1)
    x = layers.Dense(1, dtype=floatx)(x)  # (batch, 1)
""",
            ),
            Edit(
                "model.py",
                """    return keras.Model(inputs, unscale(x))
""",
                """    return keras.Model(inputs, layers.Concatenate(dtype=floatx)([unscale(x), spread]))
""",
            ),
            Edit(
                "losses.py",
                '''    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)

    return {"main": standardized_error}
''',
                '''
    def likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """-log of a normal density of the standardized labels, float (batch,).

        Without its constant, so it may be negative.

        Args:
            labels: float (batch, 1).
            predictions: float (batch, 2), the mean and the log of the deviation.
        """
        mean, spread = predictions[:, 0], predictions[:, 1]
        error = (labels[:, 0] - mean) / LABEL_DEVIATION
        return 0.5 * tf.square(error * tf.exp(-spread)) + spread

    return {"main": likelihood}
''',
            ),
            Edit(
                "losses.py",
                """# TODO(5): your losses, each with reduction="none";
# default: the squared error of standardized labels.
""",
                "",
            ),
            Edit(
                "steps.py",
                'run.metrics["mae"].update_state(labels, predictions, weights)',
                'run.metrics["mae"].update_state(labels, predictions[:, :1], weights)',
                "*",
            ),
            Edit(
                "steps.py",
                'run.metrics["r2"].update_state(labels, predictions, weights)',
                'run.metrics["r2"].update_state(labels, predictions[:, :1], weights)',
                "*",
            ),
            Edit(
                "steps.py",
                """    predictions = run.model(inputs, training=True)  # (batch, 1)
""",
                """    predictions = run.model(inputs, training=True)  # (batch, 2): mean, log of deviation
""",
            ),
            Edit(
                "steps.py",
                """    predictions = run.model(inputs, training=False)  # (batch, 1)
""",
                """    predictions = run.model(inputs, training=False)  # (batch, 2): mean, log of deviation
""",
                "*",
            ),
        ),
    ),
    Change(
        starter="tabular_regression",
        name="gamma regression with a log link: exp at the output, a loss that may be negative",
        edits=(
            Edit(
                "model.py",
                """        "label_variance": labels.var(axis=0),
""",
                "",
            ),
            Edit(
                "model.py",
                """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
    mean, variance = adapted["label_mean"], adapted["label_variance"]
    unscale = layers.Normalization(
        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"
    )
    return keras.Model(inputs, unscale(x))
""",
                """    # Zeros: training starts at the mean of the labels, for every input.
    last = layers.Dense(1, dtype=floatx, kernel_initializer="zeros", name="log_mean")
    x = last(layers.Concatenate()([x, hidden]))  # (batch, 1)
    return keras.Model(inputs, ops.exp(x) * float(adapted["label_mean"][0]))
""",
            ),
            Edit(
                "losses.py",
                """LABEL_DEVIATION = 77.0  # standard deviation of the labels
""",
                """LABEL_MEAN = 152.0  # mean of the labels
""",
            ),
            Edit(
                "losses.py",
                """# TODO(5): your losses, each with reduction="none";
# default: the squared error of standardized labels.
""",
                "",
            ),
            Edit(
                "losses.py",
                '''    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)

    return {"main": standardized_error}
''',
                '''
    def gamma_likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """-log of a gamma density of shape 1, up to a constant, float (batch,).

        Both are float (batch, 1), positive, in units of the data; lowest where they are
        equal. 0 if LABEL_MEAN is predicted for LABEL_MEAN.
        """
        loss = labels / predictions + tf.math.log(predictions / LABEL_MEAN) - 1.0
        return loss[:, 0]

    return {"main": gamma_likelihood}
''',
            ),
        ),
    ),
    change_of(
        "contrastive",
        name="pairwise sigmoid loss: every pair of images is a yes-or-no question of its own",
        edits=(
            Edit(
                "losses.py",
                """    return {}  # the step calls TensorFlow's cross-entropy itself
""",
                '''    return {}  # the step calls `pairwise_loss` itself


BIAS = -5.0  # about the log odds that one of 96 candidates is an image's own


def pairwise_loss(own: tf.Tensor, similarity: tf.Tensor, there: tf.Tensor) -> tf.Tensor:
    """The sum over all candidates of "the same image?" (Zhai et al., 2023), float (rows,).

    Args:
        own: int (rows,), the column of each row's own candidate.
        similarity: float (rows, candidates), divided by the temperature.
        there: bool (candidates,), False for padding.
    """
    columns = tf.range(tf.shape(similarity)[1])
    is_own = tf.cast(columns == own[:, tf.newaxis], similarity.dtype)
    each = tf.nn.sigmoid_cross_entropy_with_logits(is_own, similarity + BIAS)
    return tf.reduce_sum(tf.where(there, each, tf.zeros_like(each)), axis=1)
''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .losses import compute_loss, pairwise_loss
""",
            ),
            Edit(
                "steps.py",
                """    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)
""",
                """    per_example = pairwise_loss(own, similarity, there)  # (rows,)
""",
                "*",
            ),
        ),
    ),
    change_of(
        "vae",
        name="importance-weighted autoencoder: eight codes per image in training and evaluation",
        edits=(
            Edit(
                "losses.py",
                """from typing import Any
""",
                """import math
from typing import Any
""",
            ),
            Edit(
                "losses.py",
                """def means(
""",
                '''SAMPLES = 8  # codes that are drawn for each image
PRECISION = 8.0  # a pixel's variance around its decoded value is 1 / (2 PRECISION)


def importance_weighted(
    error: tf.Tensor, noise: tf.Tensor, code: tf.Tensor, log_variance: tf.Tensor
) -> tf.Tensor:
    """-log of the mean of the codes' weights (Burda et al., 2016), float (batch,).

    Args:
        error: float (batch, SAMPLES), the squared error of each code.
        noise: float (batch, SAMPLES, CODE), standard normal.
        code: float (batch, SAMPLES, CODE), what was made of the noise.
        log_variance: float (batch, CODE).
    """
    # log p(code) - log q(code | image); the constants of both densities are equal.
    each = tf.square(noise) + log_variance[:, tf.newaxis] - tf.square(code)
    log_weight = 0.5 * tf.reduce_sum(each, axis=2) - PRECISION * error
    return math.log(SAMPLES) - tf.reduce_logsumexp(log_weight, axis=1)


def means(
''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss, kl_divergence, means

WARM_UP = 200  # steps until the KL divergence counts in full
""",
                """from .losses import SAMPLES, compute_loss, importance_weighted, kl_divergence, means
from .model import CODE
""",
            ),
            Edit(
                "steps.py",
                "",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _bound(run, batch, replica, training=True)


def _bound(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The bound of SAMPLES codes by replica.seed, which in evaluation never changes."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=training), 2, axis=1)
    shape = (mean.shape[0], SAMPLES, CODE)
    noise = tf.random.stateless_normal(shape, replica.seed, dtype=mean.dtype)
    code = mean[:, tf.newaxis] + tf.exp(0.5 * log_variance)[:, tf.newaxis] * noise
    decoded = decoder(tf.reshape(code, (-1, CODE)), training=training)
    error = run.losses["main"](tf.repeat(images, SAMPLES, axis=0), decoded)
    error = tf.reshape(error, shape[:2])  # (batch, SAMPLES)
    per_example = importance_weighted(error, noise, code, log_variance)  # (batch,)
    loss = compute_loss(per_example, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    terms = {"error": tf.reduce_mean(error, axis=1), "kl": kl_divergence(mean, log_variance)}
    return {"main": loss, **means(terms, weights, replica)}
''',
                "train_step",
            ),
            Edit(
                "steps.py",
                "",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _bound(run, batch, replica, training=False)
''',
                "validation_step",
            ),
        ),
    ),
    change_of(
        "vae",
        name="free bits: the KL divergence of each code number counts as at least 0.25 in training",
        edits=(
            Edit(
                "losses.py",
                """def means(
""",
                '''FREE = 0.25  # nats of each code number that cost nothing (Kingma et al., 2016)


def kl_beyond_free(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """The KL divergence with no gradient for what is less than FREE, float (batch,)."""
    each = 0.5 * (tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0)
    return tf.reduce_sum(tf.maximum(each, FREE), axis=1)


def means(
''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss, kl_divergence, means
""",
                """from .losses import compute_loss, kl_beyond_free, kl_divergence, means
""",
            ),
            Edit(
                "steps.py",
                """    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
""",
                """    # Evaluation reports the true bound; so does the term `kl` here.
    cost = warm_up * kl_beyond_free(mean, log_variance)  # (batch,)
    loss = compute_loss(error + cost, weights, encoder, replica)
""",
                "train_step",
            ),
        ),
    ),
    change_of(
        "forecasting",
        name="the network learns what differs from the same hour yesterday, from zeros",
        edits=(
            Edit(
                "model.py",
                """from .data import COLUMNS, FUTURE, PAST
""",
                """from .data import COLUMNS, FUTURE, PAST, TARGET
""",
            ),
            Edit(
                "model.py",
                """    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
""",
                """    known = ops.where(missing, 0.0, scaled)  # the mean where a value is missing
    # PAST is a day, so its first hours are the hours to forecast, a day before.
    yesterday = layers.Cropping1D((0, PAST - FUTURE), dtype=floatx)(known)
    yesterday = ops.take(yesterday, TARGET, axis=-1)  # (batch, FUTURE)
    x = layers.Concatenate()([known, ops.cast(missing, floatx)])
""",
            ),
            Edit(
                "model.py",
                """    x = layers.Dense(FUTURE, dtype=floatx)(x)
""",
                """    # Zeros: at the start the forecast is yesterday's value.
    x = layers.Dense(FUTURE, dtype=floatx, kernel_initializer="zeros")(x) + yesterday
""",
            ),
        ),
    ),
    change_of(
        "forecasting",
        name="Student-t likelihood in which near hours weigh more than far ones",
        edits=(
            Edit(
                "losses.py",
                """import keras
import tensorflow as tf
""",
                """import keras
import numpy as np
import tensorflow as tf
""",
            ),
            Edit(
                "losses.py",
                """from .config import TaskConfig
""",
                """from .config import TaskConfig
from .data import FUTURE

DEGREES, SCALE = 4.0, 1.0  # of freedom; degrees Celsius
HORIZON = 1 / np.arange(1, FUTURE + 1)  # how much each hour counts,
HORIZON /= HORIZON.mean()  # 1 on average
""",
            ),
            Edit(
                "losses.py",
                '''    """None by name: the step squares the errors itself."""
    return {}
''',
                '''    """None by name: the step calls `student_t` itself."""
    return {}


def student_t(error: tf.Tensor) -> tf.Tensor:
    """-log of the density of an error, up to a constant, times HORIZON: (batch, FUTURE)."""
    each = tf.math.log1p(tf.square(error / SCALE) / DEGREES) * (DEGREES + 1) / 2
    return tf.constant(HORIZON, each.dtype) * each
''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss, weights_of_values
""",
                """from .losses import compute_loss, student_t, weights_of_values
""",
            ),
            Edit(
                "steps.py",
                '''    """The mean squared error of the values that are there."""
''',
                '''    """The mean of `student_t` of the values that are there."""
''',
            ),
            Edit(
                "steps.py",
                """    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}
""",
                """    return {"main": compute_loss(student_t(error), weights, run.model, replica)}
""",
            ),
        ),
    ),
    change_of(
        "finetuning",
        name="200 labeled images, each six times in an epoch, and a last layer that starts at zeros",
        edits=(
            Edit(
                "data.py",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
PER_CLASS, REPEATS = 20, 6  # training images of each class; rows of each image
""",
            ),
            Edit(
                "data.py",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
""",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    splits["train"] = _few(*splits["train"])
""",
            ),
            Edit(
                "data.py",
                """def _load_digits() -> dict[str, Arrays]:
""",
                '''def _few(images: np.ndarray, labels: np.ndarray) -> Arrays:
    """The first images of each class, in turn, repeated.

    An epoch stays as long as with all images; each time they are shifted otherwise.
    """
    rows = [np.flatnonzero(labels == c)[:PER_CLASS] for c in range(10)]
    chosen = np.tile(np.stack(rows, axis=1).ravel(), REPEATS)
    return images[chosen], labels[chosen]


def _load_digits() -> dict[str, Arrays]:
''',
            ),
            Edit(
                "model.py",
                """    logits = keras.layers.Dense(
        CLASSES, kernel_regularizer=l2, dtype=keras.config.floatx(), name="logits"
    )
""",
                """    # Zeros, so that no random direction of the last layer reaches the backbone.
    logits = keras.layers.Dense(
        CLASSES,
        kernel_initializer="zeros",
        kernel_regularizer=l2,
        dtype=keras.config.floatx(),
        name="logits",
    )
""",
            ),
        ),
    ),
    change_of(
        "finetuning",
        name="weights are pulled to where they started (L2-SP), by a frozen copy of the backbone",
        edits=(
            Edit(
                "model.py",
                """from ..engine.auxiliary import load_in_precision
""",
                """from ..engine.auxiliary import load_frozen, load_in_precision
""",
            ),
            Edit(
                "model.py",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes)."""
''',
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes); and its start.

    The start is the backbone as it was, which is never called: its weights are where those
    of the trained one are pulled to.
    """
''',
            ),
            Edit(
                "model.py",
                """    return keras.Model(images, logits(features))
""",
                """    return {"main": keras.Model(images, logits(features)), "start": load_frozen(BACKBONE)}
""",
            ),
            Edit(
                "losses.py",
                """from ..engine.types import Replica
""",
                """from ..engine.types import Replica, Run
""",
            ),
            Edit(
                "losses.py",
                """# TODO(10): the number that the loss of a batch is divided by; default: the number of
""",
                '''PULL = 1e-2  # factor of the squared distance to the start


def pull_to_start(run: Run, replica: Replica) -> tf.Tensor:
    """This replica's part of the pull (Li et al., 2018), a float scalar.

    Added once to a step: by all replicas and all micro-batches together. Normalization
    doesn't train, so its weights add 0.
    """
    now, start = run.model.get_layer("backbone").weights, run.models["start"].weights
    distances = [
        tf.nn.l2_loss(tf.convert_to_tensor(a.value) - tf.convert_to_tensor(b.value))
        for a, b in zip(now, start, strict=True)
    ]
    pull = 2 * PULL * tf.add_n(distances)
    return tf.nn.scale_regularization_loss(pull / replica.num_microbatches)


# TODO(10): the number that the loss of a batch is divided by; default: the number of
''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .losses import compute_loss, pull_to_start
""",
            ),
            Edit(
                "steps.py",
                """    return {"main": compute_loss(per_example, weights, run.model, replica)}
""",
                """    loss = compute_loss(per_example, weights, run.model, replica)
    return {"main": loss + pull_to_start(run, replica)}
""",
                "*",
            ),
        ),
    ),
    change_of(
        "two_heads",
        name="the second head has no weights: it is a marginal of the first one's logits",
        edits=(
            Edit(
                "model.py",
                """    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)
""",
                """    # p(even) is the sum of p(0), p(2), ...; in logs, and up to the same constant for odd.
    pairs = keras.ops.reshape(logits, (-1, CLASSES // 2, 2))  # (0, 1), (2, 3), ...
    even_odd = keras.ops.logsumexp(pairs, axis=1)  # (batch, 2)
    even = keras.ops.flip(even_odd, axis=1)  # label 1 is even
""",
            ),
        ),
    ),
    change_of(
        "distillation",
        name="the student matches the teacher's centered logits; labels are for the metric only",
        edits=(
            Edit(
                "losses.py",
                """    hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    soft = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")
    return {"hard": hard, "soft": soft}
""",
                '''
    def matching(taught: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """The mean squared difference of logits, (batch, classes) -> (batch,).

        Without the mean over the classes, which changes no probability.
        """
        difference = taught - logits
        difference -= tf.reduce_mean(difference, axis=1, keepdims=True)
        return tf.reduce_mean(tf.square(difference), axis=1)

    return {"main": matching}
''',
            ),
            Edit(
                "losses.py",
                """each with reduction="none"; default: cross-entropy of logits.
""",
                """each with reduction="none"; squared difference of logits.
""",
            ),
            Edit(
                "steps.py",
                """TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels
""",
                "",
            ),
            Edit(
                "steps.py",
                """    hard = run.losses["hard"](labels, logits)  # (batch,)
    soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)
""",
                """    per_example = run.losses["main"](taught, logits)  # (batch,)
""",
                "*",
            ),
            Edit(
                "steps.py",
                """    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)
""",
                "",
                "*",
            ),
        ),
    ),
    change_of(
        "distillation",
        name="half of a training batch are blends of two images without a label; the teacher tells",
        edits=(
            Edit(
                "data.py",
                """        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
""",
                """        draws = tf.random.stateless_uniform((images.shape[0], 4), seed)
        shifts = (2 * draws[:, :2] - 1) * task.shift
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
""",
            ),
            Edit(
                "data.py",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """        images = keras.ops.image.affine_transform(images, transforms)
        # A blend with the image at the other end of the global batch is no digit of its own:
        # it has no label, -1, and the teacher alone says what it looks like.
        share = tf.cast(draws[:, 2], images.dtype)[:, tf.newaxis, tf.newaxis, tf.newaxis]
        blends = share * images + (1 - share) * tf.reverse(images, [0])
        is_blend = draws[:, 3] < BLENDS  # (batch,)
        images = tf.where(is_blend[:, tf.newaxis, tf.newaxis, tf.newaxis], blends, images)
        labels = tf.where(is_blend, tf.constant(-1, labels.dtype), labels)
        return images, labels, weights
""",
            ),
            Edit(
                "data.py",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
BLENDS = 0.5  # fraction of the training images that become blends of two
""",
            ),
            Edit(
                "steps.py",
                """    hard = run.losses["hard"](labels, logits)  # (batch,)
""",
                """    has_label = tf.cast(labels >= 0, weights.dtype)  # (batch,), 0 for blends
    labels = tf.maximum(labels, 0)  # any class will do where it doesn't count
    hard = has_label * run.losses["hard"](labels, logits)  # (batch,)
""",
                "train_step",
            ),
            Edit(
                "steps.py",
                """    run.metrics["accuracy"].update_state(labels, logits, weights)
""",
                """    run.metrics["accuracy"].update_state(labels, logits, weights * has_label)
""",
                "train_step",
            ),
        ),
    ),
)
