"""Correct tasks of a twenty-third examiner; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import change_of

FAULTS: tuple[Fault, ...] = ()

TASKS: tuple[Change, ...] = (
    Change(
        starter="image_classification",
        name="labels flipped by known annotators, forward-corrected loss in training only",
        edits=(
            Edit(
                "data.py",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST

# The study: cheap annotators, who label the training images only, take a class for the next one
# in 35% of the cases. Row: class; column: how often they say so. Validation and test are clean.
CLASSES = 10
ANNOTATED = 0.65 * np.eye(CLASSES) + 0.35 * np.roll(np.eye(CLASSES), 1, axis=1)
""",
            ),
            Edit(
                "data.py",
                """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }


# TODO(3)""",
                """    datasets = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    images, labels = datasets["train"]
    random = np.random.default_rng(7)
    said = np.array([random.choice(CLASSES, p=ANNOTATED[label]) for label in labels])
    return datasets | {"train": (images, said.astype("int64"))}


# TODO(3)""",
            ),
            Edit(
                "losses.py",
                """from .config import TaskConfig
""",
                """from .config import TaskConfig
from .data import ANNOTATED

LOG_ANNOTATED = np.log(np.maximum(ANNOTATED, 1e-30))
""",
            ),
            Edit(
                "losses.py",
                """import keras
""",
                """import keras
import numpy as np
""",
            ),
            Edit(
                "losses.py",
                """    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
""",
                '''
    def annotated(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """The cross-entropy of what annotators say of an image (Patrini et al., 2017), (batch,)."""
        says_so = tf.gather(tf.constant(LOG_ANNOTATED.T, logits.dtype), labels)  # (batch, classes)
        return -tf.reduce_logsumexp(tf.nn.log_softmax(logits) + says_so, axis=1)

    clean = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"main": clean, "annotated": annotated}
''',
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["main"](labels, predictions)  # (batch,)
""",
                """    per_example = run.losses["annotated"](labels, predictions)  # (batch,)
""",
                "train_step",
            ),
        ),
    ),
    Change(
        starter="image_classification",
        name="long tail sorted by class, logit-adjusted loss in training, accuracy of rare classes",
        edits=(
            Edit(
                "data.py",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
""",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    images, labels = splits["train"]
    counts = np.bincount(labels)
    # A long tail as in the field: the last class keeps a twentieth; validation and test don't.
    kept = np.ceil(counts * 0.05 ** np.linspace(0, 1, len(counts))).astype(int)
    rows = [np.flatnonzero(labels == c)[:number] for c, number in enumerate(kept)]
    splits["train"] = images[np.concatenate(rows)], labels[np.concatenate(rows)]
""",
            ),
            Edit(
                "model.py",
                """    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}
""",
                """    images, *_ = first_examples(datasets["train"], 1)
    _, labels = datasets["train"]
    counts = np.bincount(labels, minlength=CLASSES) + 1.0  # no class has a share of 0
    return {"shape": images.shape[1:], "log_share": np.log(counts / counts.sum())}
""",
            ),
            Edit(
                "metrics.py",
                """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
                """    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "rare_accuracy": keras.metrics.SparseCategoricalAccuracy(),
    }
""",
            ),
            Edit(
                "steps.py",
                """    run.metrics["accuracy"].update_state(labels, predictions, weights)
""",
                """    run.metrics["accuracy"].update_state(labels, predictions, weights)
    rare = weights * tf.cast(labels >= RARE, weights.dtype)  # (batch,)
    run.metrics["rare_accuracy"].update_state(labels, predictions, rare)
""",
                "*",
            ),
            Edit(
                "steps.py",
                """Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)
""",
                """RARE = 5  # from this class on, there are few training images
Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)
""",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["main"](labels, predictions)  # (batch,)
""",
                """    # With the classes' shares in the logits the model needn't learn them, and without them it
    # judges all classes alike (Menon et al., 2021): so evaluation leaves them out.
    log_share = tf.constant(run.adapted["log_share"], predictions.dtype)
    per_example = run.losses["main"](labels, predictions + log_share)  # (batch,)
""",
                "train_step",
            ),
        ),
    ),
    Change(
        starter="image_classification",
        name="stochastic weight averaging in the step with a cyclical learning rate",
        edits=(
            Edit(
                "model.py",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes).
''',
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Images float (batch, h, w, 1) -> logits float32 (batch, classes), and its average.
''',
            ),
            Edit(
                "model.py",
                """    return keras.Model(images, logits)
""",
                """    model = keras.Model(images, logits)
    average = keras.models.clone_model(model)  # with other initial weights
    average.set_weights(model.get_weights())
    average.name = "average"
    average.trainable = False  # the train step writes it
    return {"classifier": model, "average": average}
""",
            ),
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
                """    # Twelve equal cycles that never end at 0: the average of the weights replaces the decay.
    schedule = keras.optimizers.schedules.CosineDecayRestarts(
        task.learning_rate, first_decay_steps=max(1, steps // 12), t_mul=1.0, alpha=0.1
    )
    return keras.optimizers.Adam(schedule)
""",
            ),
            Edit(
                "steps.py",
                """import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
""",
                """import keras
import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

AVERAGED_FROM = 240  # the step from which on weights are averaged; before it the latest are copied
""",
            ),
            Edit(
                "steps.py",
                """# TODO(11): one train step; default: predicts, updates the accuracy and returns the loss.
""",
                '''def _average(run: Run, replica: Replica) -> None:
    """Make "average" the mean of the weights at all steps from AVERAGED_FROM on (SWA)."""
    before = tf.cast(tf.maximum(replica.step - AVERAGED_FROM, 0), keras.config.floatx())
    # Each micro-batch of a step comes here with the same weights: n times the n-th root.
    kept = (before / (before + 1.0)) ** (1 / replica.num_microbatches)
    pairs = zip(run.models["average"].weights, run.models["classifier"].weights, strict=True)
    for mean, weight in pairs:
        mean.assign(kept * mean.value + (1.0 - kept) * weight.value)


# TODO(11): one train step; default: predicts, updates the accuracy and returns the loss.
''',
            ),
            Edit(
                "steps.py",
                """    predictions = run.model(images, training=True)  # (batch, classes)
""",
                """    predictions = run.models["classifier"](images, training=True)  # (batch, classes)
    _average(run, replica)
""",
            ),
            Edit(
                "steps.py",
                "run.model(images, training=False)",
                'run.models["average"](images, training=False)',
                "*",
            ),
            Edit(
                "steps.py",
                "compute_loss(per_example, weights, run.model, replica)",
                'compute_loss(per_example, weights, run.models["classifier"], replica)',
                "*",
            ),
            Edit(
                "pictures.py",
                "predict_in_parts(run.model, images)",
                'predict_in_parts(run.models["average"], images)',
            ),
        ),
    ),
    Change(
        starter="segmentation",
        name="labels of pixels blurred over their neighbors in training",
        edits=(
            Edit(
                "losses.py",
                """import keras
""",
                """import keras
import numpy as np
""",
            ),
            Edit(
                "losses.py",
                """from .data import IGNORED
""",
                """from .data import CLASSES, IGNORED

BLUR = np.outer([1, 6, 1], [1, 6, 1]) / 64  # of labels, over the 3x3 pixels around
""",
            ),
            Edit(
                "losses.py",
                """def average_over_pixels(
""",
                '''def blurred_cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The cross-entropy with the classes around a pixel, float (batch, h, w); 0 where ignored.

    Label smoothing that knows of space (Islam & Glocker, 2021): only at the border between two
    classes the target isn't one of them, and ignored pixels lend it nothing.

    Args:
        labels: int (batch, h, w).
        logits: float (batch, h, w, classes).
    """
    one_hot = tf.one_hot(labels, CLASSES, dtype=logits.dtype)  # all 0 where ignored
    kernel = tf.constant(BLUR[..., np.newaxis, np.newaxis], logits.dtype)
    kernel = tf.tile(kernel, [1, 1, CLASSES, 1])  # each class by itself
    blurred = tf.nn.depthwise_conv2d(one_hot, kernel, [1, 1, 1, 1], "SAME")
    target = tf.math.divide_no_nan(blurred, tf.reduce_sum(blurred, axis=-1, keepdims=True))
    per_pixel = -tf.reduce_sum(target * tf.nn.log_softmax(logits), axis=-1)
    return tf.where(labels == IGNORED, tf.zeros_like(per_pixel), per_pixel)


def average_over_pixels(
''',
            ),
            Edit(
                "steps.py",
                """from .losses import average_over_pixels, compute_loss
""",
                """from .losses import average_over_pixels, blurred_cross_entropy, compute_loss
""",
            ),
            Edit(
                "steps.py",
                """    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
""",
                """    per_pixel = blurred_cross_entropy(labels, logits)  # (batch, h, w)
""",
                "train_step",
            ),
        ),
    ),
    Change(
        starter="segmentation",
        name="weight standardization with group normalization",
        edits=(
            Edit(
                "model.py",
                """from typing import Any

import keras
""",
                """import math
from typing import Any

import keras
""",
            ),
            Edit(
                "model.py",
                """a U-Net (Ronneberger et al., 2015) whose batch normalization the engine synchronizes over all
# replicas.
""",
                """a U-Net (Ronneberger et al., 2015) that
# normalizes kernels, and features of each image by themselves.
""",
            ),
            Edit(
                "steps.py",
                """# TODO(13): one validation step; default: the same with training=False, which uses the moving
# averages of batch normalization.
""",
                """# TODO(13): one validation step; the same, for there is neither dropout nor a moving average.
""",
            ),
            Edit(
                "model.py",
                """def _convolve_twice(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    # Neither ReLU, max pooling nor the default epsilon: on nearly empty canvases many values lie at
    # the kinks of the first two, and the last magnifies values close to 0. Rounding alone, which
    # differs with the number of replicas, would then move float32 gradients by 2%.
    for _ in range(2):
        x = keras.layers.Conv2D(filters, 3, padding="same", activation="swish")(x)
        x = keras.layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)
    return x
""",
                '''@keras.saving.register_keras_serializable(package="my_experiment")
class StandardizedConv2D(keras.layers.Conv2D):
    """A convolution by its kernel with mean 0 and variance 1 / inputs for each filter.

    Weight standardization (Qiao et al., 2019), scaled as in Brock et al. (2021).
    """

    def convolution_op(self, inputs: Any, kernel: Any) -> Any:
        """The convolution by the standardized kernel; the weight itself stays as it is."""
        kernel = keras.ops.cast(keras.ops.convert_to_tensor(kernel), keras.config.floatx())
        mean, variance = keras.ops.moments(kernel, axes=[0, 1, 2], keepdims=True)
        fan_in = math.prod(kernel.shape[:3])
        kernel = (kernel - mean) / keras.ops.sqrt(fan_in * variance + 1e-4)
        return super().convolution_op(inputs, keras.ops.cast(kernel, inputs.dtype))


def _convolve_twice(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    # Neither ReLU, max pooling nor the default epsilon: on nearly empty canvases many values lie at
    # the kinks of the first two, and the last magnifies values close to 0.
    for _ in range(2):
        x = StandardizedConv2D(filters, 3, padding="same", activation="swish")(x)
        # Per image, so batches may be tiny, and replicas needn't exchange statistics.
        x = keras.layers.GroupNormalization(math.gcd(4, filters), epsilon=0.1)(x)
    return x
''',
            ),
        ),
    ),
    Change(
        starter="language_model",
        name="R-Drop: two passes with dropout that shall agree",
        edits=(
            Edit(
                "config.py",
                "    dropout: float = 0.0  # fraction",
                "    dropout: float = 0.1  # fraction",
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number",
                '''def divergence(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    """The mean of both Kullback-Leibler divergences, of logits (batch, T, TOKENS): (batch, T)."""
    log_a, log_b = tf.nn.log_softmax(a), tf.nn.log_softmax(b)
    return 0.5 * tf.reduce_sum((tf.exp(log_a) - tf.exp(log_b)) * (log_a - log_b), axis=-1)


# TODO(10): the number''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .losses import compute_loss, divergence
""",
            ),
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens",
                """AGREEMENT = 1.0  # how much the divergence of two passes counts
Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # tokens""",
            ),
            Edit(
                "steps.py",
                """    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
""",
                """    # Twice the same lines with other dropout (Liang et al., 2021), both with a gradient.
    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)
    again = run.model(tokens, training=True)  # (batch, T, TOKENS)
    per_token = 0.5 * (run.losses["main"](targets, logits) + run.losses["main"](targets, again))
    per_token += AGREEMENT * divergence(logits, again)  # (batch, T)
""",
            ),
        ),
    ),
    Change(
        starter="language_model",
        name="prompt characters lost in training inputs only, trapezoidal learning rate",
        edits=(
            Edit(
                "config.py",
                "    learning_rate: float = 3e-3  #",
                """    lost: float = 0.03  # fraction of a prompt's characters that training hides; 0 disables
    learning_rate: float = 3e-3  #""",
            ),
            Edit(
                "config.py",
                """        if not 0 <= self.warmup < 1:
""",
                """        if not 0 <= self.lost < 1:
            raise ValueError(f"--lost is {self.lost}; it must be at least 0 and less than 1.")
        if not 0 <= self.warmup < 1:
""",
            ),
            Edit(
                "data.py",
                """PROMPT_END, LINE_END = ord(">"), ord("\\n")
""",
                """PROMPT_END, LINE_END = ord(">"), ord("\\n")
LOST = 1  # in place of a hidden character; no line has it
""",
            ),
            Edit(
                "data.py",
                """        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)
""",
                """        tokens, targets, weights = (
            tf.gather(part, form, axis=1, batch_dims=1) for part in batch
        )  # (batch, T)
        # As in bad scans. Neither the answer nor any target changes: the model must guess.
        in_prompt = tf.cumsum(tf.cast(tokens == PROMPT_END, tf.int32), axis=1) == 0
        other_seed = tf.random.experimental.stateless_fold_in(seed, 1)
        kept = tf.random.stateless_uniform(tokens.shape, other_seed) >= task.lost
        return tf.where(kept | ~in_prompt, tokens, LOST), targets, weights
""",
            ),
            Edit(
                "optimizer.py",
                """    warmup = int(task.warmup * steps)
    schedule = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else task.learning_rate,
        decay_steps=steps - warmup,
        warmup_target=task.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
    return keras.optimizers.Adam(schedule)
""",
                """    warmup, decay = max(1, int(task.warmup * steps)), max(1, steps // 5)
    return keras.optimizers.Adam(Trapezoid(task.learning_rate, steps, warmup, decay))
""",
            ),
            Edit(
                "optimizer.py",
                "# TODO(7): your optimizer",
                '''class Trapezoid(keras.optimizers.schedules.LearningRateSchedule):
    """A learning rate that rises, stays for most of the run, and falls to 0 at its end."""

    def __init__(self, peak: float, steps: int, warmup: int, decay: int) -> None:
        self.peak, self.steps, self.warmup, self.decay = peak, steps, warmup, decay

    def __call__(self, step: Any) -> Any:
        """The learning rate of a step that so many came before."""
        step = keras.ops.cast(step, keras.config.floatx())
        rising, falling = (step + 1.0) / self.warmup, (self.steps - step) / self.decay
        return self.peak * keras.ops.minimum(1.0, keras.ops.minimum(rising, falling))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        names = ("peak", "steps", "warmup", "decay")
        return {name: getattr(self, name) for name in names}


# TODO(7): your optimizer''',
            ),
            Edit(
                "optimizer.py",
                """import keras
""",
                """from typing import Any

import keras
""",
            ),
        ),
    ),
    Change(
        starter="gan",
        name="relativistic pairing loss with zero-centered penalties on real and generated images",
        edits=(
            Edit(
                "config.py",
                "    dropout: float = 0.3  # fraction",
                "    dropout: float = 0.0  # fraction",
            ),
            Edit(
                "losses.py",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: logits (batch, 1) -> one number per example."""
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are high on real images and low on generated ones."""
        loss_on_real = cross_entropy(tf.ones_like(on_real), on_real)  # (batch,)
        loss_on_generated = cross_entropy(tf.zeros_like(on_generated), on_generated)  # (batch,)
        return (loss_on_real + loss_on_generated) / 2

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are high on generated images.

        Not the discriminator's loss with the opposite sign, which has no gradient where the
        discriminator is sure (Goodfellow et al., 2014).
        """
        return cross_entropy(tf.ones_like(on_generated), on_generated)  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; logits (batch, 1) of real and generated images give one number per pair.

    A real image shall have the higher logit than the generated one in its row, whatever the logits
    are by themselves (Jolicoeur-Martineau, 2018; Huang et al., 2024).
    """

    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are higher on real images than on generated ones."""
        return tf.nn.softplus(on_generated - on_real)[:, 0]  # (batch,)

    def generator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        """Low if the logits are higher on generated images than on real ones."""
        return tf.nn.softplus(on_real - on_generated)[:, 0]  # (batch,)

    return {"discriminator": discriminator_loss, "generator": generator_loss}
''',
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number",
                '''def logits_and_slopes(model: keras.Model, images: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Logits (batch, 1), and the squared norm of their gradient by the image, (batch,)."""
    with tf.GradientTape() as tape:
        tape.watch(images)
        logits = model(images, training=True)
    return logits, tf.reduce_sum(tf.square(tape.gradient(logits, images)), axis=[1, 2, 3])


# TODO(10): the number''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .losses import compute_loss, logits_and_slopes

PENALTY = 0.5  # factor of the squared slopes of the discriminator
""",
            ),
            Edit(
                "steps.py",
                """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
                """    on_real, real_slopes = logits_and_slopes(discriminator, images)
    on_generated, generated_slopes = logits_and_slopes(discriminator, generated)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    per_example += PENALTY / 2 * (real_slopes + generated_slopes)
""",
            ),
            Edit(
                "steps.py",
                """    _, latents, weights = batch
""",
                """    images, latents, weights = batch
""",
                "generator_step",
            ),
            Edit(
                "steps.py",
                """    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["generator"](on_generated)  # (batch,)
""",
                """    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["generator"](on_real, on_generated)  # (batch,)
""",
            ),
            Edit(
                "steps.py",
                """    generator_losses = run.losses["generator"](on_generated)  # (batch,)
""",
                """    generator_losses = run.losses["generator"](on_real, on_generated)  # (batch,)
""",
            ),
        ),
    ),
    Change(
        starter="gan",
        name="average of the generator is evaluated, two discriminator steps with latents of their own",
        edits=(
            Edit(
                "model.py",
                '''    """The generator and the discriminator.

''',
                '''    """The generator and the discriminator, and a moving average of the generator.

''',
            ),
            Edit(
                "model.py",
                """    return {
        "generator": _create_generator(task, height, width, channels),
        "discriminator": _create_discriminator(task, height, width, channels),
    }
""",
                """    generator = _create_generator(task, height, width, channels)
    discriminator = _create_discriminator(task, height, width, channels)
    average = _create_generator(task, height, width, channels)
    average.set_weights(generator.get_weights())
    average.name = "average"
    average.trainable = False  # no optimizer has it: the generator's step writes it
    return {"generator": generator, "discriminator": discriminator, "average": average}
""",
            ),
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    # Little""",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    # The discriminator's optimizer counts two steps in each (TRAIN_STEPS in steps.py).
    twice = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=2 * steps)
    # Little""",
            ),
            Edit(
                "optimizer.py",
                """        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),
""",
                """        "discriminator": keras.optimizers.Adam(twice, beta_1=0.5),
""",
            ),
            Edit(
                "steps.py",
                """import tensorflow as tf

from ..engine.types""",
                """import keras
import tensorflow as tf

from ..engine.types""",
            ),
            Edit(
                "steps.py",
                "# TODO(11): one train step",
                '''KEPT = 0.995  # of the generator's average, in a step


def _average(run: Run, replica: Replica) -> None:
    """Move "average" towards the generator, faster in the first steps (Karras et al., 2018)."""
    step = tf.cast(replica.step, keras.config.floatx())
    # Each micro-batch of a step comes here with the same weights: n times the n-th root.
    kept = tf.minimum((step + 1.0) / (step + 10.0), KEPT) ** (1 / replica.num_microbatches)
    pairs = zip(run.models["average"].weights, run.models["generator"].weights, strict=True)
    for mean, weight in pairs:
        mean.assign(kept * mean.value + (1.0 - kept) * weight.value)


# TODO(11): one train step''',
            ),
            Edit(
                "steps.py",
                """    images, latents, weights = batch
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real""",
                """    images, latents, weights = batch
    # Other ones in each of the two steps, and others than the generator's.
    latents = tf.random.stateless_normal(latents.shape, replica.seed, dtype=latents.dtype)
    generator, discriminator = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real""",
            ),
            Edit(
                "steps.py",
                """    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    # The engine (""",
                "    # The engine (",
            ),
            Edit(
                "steps.py",
                """    _, latents, weights = batch
""",
                """    images, latents, weights = batch
""",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["generator"](on_generated)  # (batch,)
    return {"generator": compute_loss(per_example, weights, generator, replica)}
""",
                """    per_example = run.losses["generator"](on_generated)  # (batch,)
    _average(run, replica)
    shown = run.models["average"](latents, training=False)  # (batch, h, w, channels)
    run.metrics["frechet"].update_state(images, shown, weights)
    run.metrics["nearest_distance"].update_state(shown, weights)
    return {"generator": compute_loss(per_example, weights, generator, replica)}
""",
            ),
            Edit(
                "steps.py",
                """    generated = generator(latents, training=False)  # (batch, h, w, channels)
""",
                """    generated = run.models["average"](latents, training=False)  # (batch, h, w, channels)
""",
            ),
            Edit(
                "steps.py",
                """TRAIN_STEPS = (discriminator_step, generator_step)  # called in this order on the same batch
""",
                """TRAIN_STEPS = (discriminator_step, discriminator_step, generator_step)  # in every step
""",
            ),
            Edit(
                "pictures.py",
                'predict_in_parts(run.models["generator"], latents)',
                'predict_in_parts(run.models["average"], latents)',
            ),
            Edit(
                "pictures.py",
                '_save(run.models["generator"](latents, training=False).numpy(), file)',
                '_save(run.models["average"](latents, training=False).numpy(), file)',
            ),
        ),
    ),
    Change(
        starter="tabular_regression",
        name="right-censored training labels with a Tobit loss, and a concordance index",
        edits=(
            Edit(
                "config.py",
                """    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  #""",
                """    monitor: str = "validation_concordance"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  #""",
            ),
            Edit(
                "data.py",
                """MASK_SEED, SPLIT_SEED = 0, 0
""",
                """MASK_SEED, SPLIT_SEED = 0, 0
LIMIT = 249.5  # in training a progression beyond it was recorded as this; labels are whole
""",
            ),
            Edit(
                "data.py",
                """        "train": (inputs, labels, _balance(inputs["sex"])),
""",
                """        # The scale ended here when the training patients were measured, not later.
        "train": (inputs, np.minimum(labels, np.float32(LIMIT)), _balance(inputs["sex"])),
""",
            ),
            Edit(
                "losses.py",
                """from .config import TaskConfig

LABEL_DEVIATION = 77.0  # standard deviation of the labels
""",
                """from .config import TaskConfig
from .data import LIMIT

NOISE = 55.0  # standard deviation of what can't be predicted, in units of the data
""",
            ),
            Edit(
                "losses.py",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""
    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)

    return {"main": standardized_error}
''',
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""

    def gaussian(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> the negative log-likelihood, (batch,)."""
        return 0.5 * tf.square((labels - predictions) / NOISE)[:, 0]

    def censored(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """The same, where a label of LIMIT stands for any value from there on (Tobin, 1958)."""
        below = (LIMIT - predictions[:, 0]) / NOISE
        # Of erfc(10 / sqrt(2)) the logarithm is finite; no prediction is so far below.
        beyond = -tf.math.log(0.5 * tf.math.erfc(tf.minimum(below, 10.0) / 2**0.5))
        return tf.where(labels[:, 0] >= LIMIT, beyond, gaussian(labels, predictions))

    return {"main": gaussian, "censored": censored}
''',
            ),
            Edit(
                "metrics.py",
                "# TODO(6): your metrics",
                '''class Concordance(keras.metrics.Metric):
    """The fraction of pairs of patients that predictions put in the right order; 0.5 by chance.

    Of labels and predictions in bins, so that counts can be added over batches and replicas; pairs
    with labels in one bin are left out, and those with predictions in one bin count half.
    """

    BINS, FIRST, WIDTH = 64, 25.0, 5.0

    def __init__(self) -> None:
        super().__init__(name="concordance")
        self._counts = self.add_variable((self.BINS, self.BINS), "zeros", name="counts")

    def _one_hot(self, values: tf.Tensor) -> tf.Tensor:
        bins = tf.cast(tf.floor((values[:, 0] - self.FIRST) / self.WIDTH), tf.int32)
        return tf.one_hot(tf.clip_by_value(bins, 0, self.BINS - 1), self.BINS, dtype=values.dtype)

    def update_state(
        self, labels: tf.Tensor, predictions: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add labels and predictions (batch, 1) with weights (batch,)."""
        rows = sample_weight[:, tf.newaxis] * self._one_hot(labels)
        counts = tf.matmul(rows, self._one_hot(predictions), transpose_a=True)
        self._counts.assign_add(tf.cast(counts, self.dtype))

    def result(self) -> tf.Tensor:
        """The fraction, a float scalar; 0 before the first pair."""
        counts = tf.convert_to_tensor(self._counts)  # (labels, predictions)
        larger = tf.cumsum(counts, axis=0, exclusive=True, reverse=True)  # label, same prediction
        right = tf.cumsum(larger, axis=1, exclusive=True, reverse=True)
        pairs = tf.reduce_sum(tf.reduce_sum(counts, axis=1) * tf.reduce_sum(larger, axis=1))
        return tf.math.divide_no_nan(tf.reduce_sum(counts * (right + 0.5 * larger)), pairs)


# TODO(6): your metrics''',
            ),
            Edit(
                "metrics.py",
                """    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}
""",
                """    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, "concordance": Concordance()}
""",
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .data import LIMIT
from .losses import compute_loss
""",
            ),
            Edit(
                "steps.py",
                """    run.metrics["r2"].update_state(labels, predictions, weights)
""",
                """    run.metrics["r2"].update_state(labels, predictions, weights)
    run.metrics["concordance"].update_state(labels, predictions, weights)
""",
                "*",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["mae"].update_state(labels, predictions, weights)
    run.metrics["r2"].update_state(labels, predictions, weights)
    run.metrics["concordance"].update_state(labels, predictions, weights)
""",
                """    per_example = run.losses["censored"](labels, predictions)  # (batch,)
    known = weights * tf.cast(labels[:, 0] < LIMIT, weights.dtype)  # an error is known of these
    run.metrics["mae"].update_state(labels, predictions, known)
    run.metrics["r2"].update_state(labels, predictions, known)
    run.metrics["concordance"].update_state(labels, predictions, known)
""",
                "train_step",
            ),
        ),
    ),
    Change(
        starter="tabular_regression",
        name="mean and variance by beta-NLL, with coverage as calibration",
        edits=(
            Edit(
                "model.py",
                """    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)
""",
                """    x = layers.Concatenate()([x, hidden])
    # Log variance of a standardized label, between -3 and 3 and 0 at first.
    spread = layers.Dense(1, kernel_initializer="zeros", dtype=floatx, name="spread")(x)
    spread = 3.0 * ops.tanh(spread)  # (batch, 1)
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
                "model.py",
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 1).
''',
                '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs {"numeric": float (batch, columns), "sex": int64 (batch,)} -> float32 (batch, 2).

    The second number is the log variance of the label in units of LABEL_DEVIATION.
''',
            ),
            Edit(
                "losses.py",
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example."""
    squared_error = keras.losses.MeanSquaredError(reduction="none")

    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.

        Standardized, since gradients in units of the data would overflow in float16.
        """
        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)

    return {"main": standardized_error}
''',
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; labels (batch, 1) and predictions (batch, 2) give one number per example."""

    def likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """The negative log-likelihood of standardized labels but for a constant, (batch,).

        Standardized, since gradients in units of the data would overflow in float16.
        """
        mean, log_variance = tf.unstack(predictions, axis=1)
        error = (labels[:, 0] - mean) / LABEL_DEVIATION
        return 0.5 * (tf.square(error) * tf.exp(-log_variance) + log_variance)

    def weighted_likelihood(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """The same times the deviation, as a constant: else hard examples are given up.

        Beta-NLL with beta = 0.5 (Seitzer et al., 2022).
        """
        deviation = tf.stop_gradient(tf.exp(0.5 * predictions[:, 1]))
        return deviation * likelihood(labels, predictions)

    return {"main": likelihood, "weighted": weighted_likelihood}
''',
            ),
            Edit(
                "metrics.py",
                """    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}
""",
                """    # The fraction of labels within a predicted standard deviation: 0.68 is right.
    coverage = keras.metrics.Mean()
    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2, "coverage": coverage}
""",
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .losses import LABEL_DEVIATION, compute_loss
""",
            ),
            Edit(
                "steps.py",
                """    run.metrics["mae"].update_state(labels, predictions, weights)
    run.metrics["r2"].update_state(labels, predictions, weights)
""",
                """    _update_metrics(run, labels, predictions, weights)
""",
                "*",
            ),
            Edit(
                "steps.py",
                """# (batch, 1)
""",
                """# (batch, 2)
""",
                "*",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["main"](labels, predictions)  # (batch,)
""",
                """    per_example = run.losses["weighted"](labels, predictions)  # (batch,)
""",
                "train_step",
            ),
            Edit(
                "steps.py",
                "TRAIN_STEPS = (",
                """def _update_metrics(
    run: Run, labels: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor
) -> None:
    mean = predictions[:, :1]
    run.metrics["mae"].update_state(labels, mean, weights)
    run.metrics["r2"].update_state(labels, mean, weights)
    deviation = LABEL_DEVIATION * tf.exp(0.5 * predictions[:, 1])  # (batch,)
    is_within = tf.abs(labels - mean)[:, 0] <= deviation
    run.metrics["coverage"].update_state(is_within, weights)


TRAIN_STEPS = (""",
            ),
            Edit(
                "predictions.py",
                """    return {"progression": np.asarray(outputs)[:, 0]}
""",
                """    progression, log_variance = np.asarray(outputs).T
    return {"progression": progression, "deviation": LABEL_DEVIATION * np.exp(log_variance / 2)}
""",
            ),
            Edit(
                "predictions.py",
                """from .data import CATEGORY
""",
                """from .data import CATEGORY
from .losses import LABEL_DEVIATION
""",
            ),
        ),
    ),
    change_of(
        "contrastive",
        name="pairwise sigmoid loss with a trained scale and bias",
        edits=(
            Edit(
                "model.py",
                """from typing import Any

import keras
""",
                """import math
from typing import Any

import keras
""",
            ),
            Edit(
                "model.py",
                """FEATURES = 32
""",
                '''FEATURES = 32


@keras.saving.register_keras_serializable(package="my_experiment")
class Scale(keras.layers.Layer):
    """Unit vectors -> vectors whose products are logits, but for `bias`, which a step adds."""

    def build(self, input_shape: Any) -> None:
        """One number for the scale, and one for the bias, as in SigLIP (Zhai et al., 2023)."""
        log_ten = keras.initializers.Constant(math.log(10.0))
        self.log_scale = self.add_weight(shape=(), initializer=log_ten, name="log_scale")
        minus_ten = keras.initializers.Constant(-10.0)  # most pairs don't match
        self.bias = self.add_weight(shape=(), initializer=minus_ten, name="bias")

    def call(self, features: Any) -> Any:
        """Half of the scale for each side of a product."""
        return features * keras.ops.exp(0.5 * self.log_scale)
''',
            ),
            Edit(
                "model.py",
                """    features = layers.Dense(FEATURES, dtype=keras.config.floatx(), name="features")(x)
    return keras.Model(images, features)
""",
                """    floatx = keras.config.floatx()
    features = layers.Dense(FEATURES, dtype=floatx, name="features")(x)
    features = layers.UnitNormalization(dtype=floatx)(features)
    return keras.Model(images, Scale(dtype=floatx, name="scale")(features))
""",
            ),
            Edit(
                "steps.py",
                """TEMPERATURE = 0.1
""",
                "",
            ),
            Edit(
                "steps.py",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    left, right, weights = batch
    left = tf.math.l2_normalize(run.model(left, training=True), axis=1)  # (rows, features)
    right = tf.math.l2_normalize(run.model(right, training=True), axis=1)  # (rows, features)
    candidates = replica.all_gather(right)  # (rows of all replicas, features)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)
    run.metrics["accuracy"].update_state(own, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)
''',
            ),
            Edit(
                "steps.py",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    left, right, weights = batch
    left = tf.math.l2_normalize(run.model(left, training=False), axis=1)  # (rows, features)
    right = tf.math.l2_normalize(run.model(right, training=False), axis=1)  # (rows, features)
    candidates = replica.all_gather(right)  # (rows of all replicas, features)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)
    run.metrics["accuracy"].update_state(own, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)
''',
            ),
            Edit(
                "steps.py",
                "TRAIN_STEPS = (",
                '''def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Each pair of an image and a noisy one is a yes-or-no question: are they the same?"""
    left, right, weights = batch
    left = run.model(left, training=training)  # (rows, features)
    candidates = replica.all_gather(run.model(right, training=training))  # of all replicas
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    bias = run.model.get_layer("scale").bias.value  # a scalar
    logits = tf.matmul(left, candidates, transpose_b=True) + bias  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    is_own = own[:, tf.newaxis] == tf.range(tf.shape(candidates)[0])
    wrong = tf.nn.softplus(tf.where(is_own, -logits, logits))
    # Summed over the candidates, not averaged: one of them matches, however many there are.
    per_example = tf.reduce_sum(tf.where(there, wrong, tf.zeros_like(wrong)), axis=1)  # (rows,)
    among = tf.where(there, logits, -1e9 * tf.ones_like(logits))
    run.metrics["accuracy"].update_state(own, among, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (''',
            ),
        ),
    ),
    change_of(
        "contrastive",
        name="Barlow Twins: decorrelated features of the global batch",
        edits=(
            Edit(
                "steps.py",
                """from .losses import compute_loss

TEMPERATURE = 0.1
""",
                """
OFF_DIAGONAL = 0.05  # how much the correlation of different features counts
""",
            ),
            Edit(
                "steps.py",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    left, right, weights = batch
    left = tf.math.l2_normalize(run.model(left, training=True), axis=1)  # (rows, features)
    right = tf.math.l2_normalize(run.model(right, training=True), axis=1)  # (rows, features)
    candidates = replica.all_gather(right)  # (rows of all replicas, features)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)
    run.metrics["accuracy"].update_state(own, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)
''',
            ),
            Edit(
                "steps.py",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    left, right, weights = batch
    left = tf.math.l2_normalize(run.model(left, training=False), axis=1)  # (rows, features)
    right = tf.math.l2_normalize(run.model(right, training=False), axis=1)  # (rows, features)
    candidates = replica.all_gather(right)  # (rows of all replicas, features)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding
    similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE
    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`
    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)
    run.metrics["accuracy"].update_state(own, logits, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
''',
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)
''',
            ),
            Edit(
                "steps.py",
                "TRAIN_STEPS = (",
                '''def _standardized(features: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
    """Features (n, features) with mean 0 and variance 1, of rows with shares (n, 1)."""
    centered = features - tf.reduce_sum(shares * features, axis=0)
    variance = tf.reduce_sum(shares * tf.square(centered), axis=0)
    return centered * tf.math.rsqrt(variance + 1e-4)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """How far the correlations between both views' features are from the identity matrix."""
    left, right, weights = batch
    rows = left.shape[0]
    # Of all replicas, so each of them computes the same correlations.
    left = replica.all_gather(run.model(left, training=training))  # (rows of all, features)
    right = replica.all_gather(run.model(right, training=training))
    everyone = replica.all_gather(weights)
    shares = tf.math.divide_no_nan(everyone, tf.reduce_sum(everyone))[:, tf.newaxis]  # (rows, 1)
    left, right = _standardized(left, shares), _standardized(right, shares)
    correlations = tf.matmul(shares * left, right, transpose_a=True)  # (features, features)
    diagonal = tf.linalg.diag_part(correlations)
    on = tf.reduce_sum(tf.square(1.0 - diagonal))
    off = tf.reduce_sum(tf.square(correlations)) - tf.reduce_sum(tf.square(diagonal))
    # Whether an image's own noisy one is the most similar: for the metric alone.
    own = replica.index * rows + tf.range(rows)  # where this replica's rows are
    mine = tf.math.l2_normalize(tf.gather(left, own), axis=1)
    similarity = tf.matmul(mine, tf.math.l2_normalize(right, axis=1), transpose_b=True)
    similarity = tf.where(everyone > 0, similarity, -1e9 * tf.ones_like(similarity))
    run.metrics["accuracy"].update_state(own, similarity, weights)
    # No mean over examples: one number for the batch, of which each replica gives its part.
    loss = (on + OFF_DIAGONAL * off) / replica.num_replicas
    return {"main": loss + tf.nn.scale_regularization_loss(replica.regularization(run.model))}


TRAIN_STEPS = (''',
            ),
        ),
    ),
    change_of(
        "vae",
        name="finite scalar quantization: rounded codes with straight-through gradients, no KL",
        edits=(
            Edit(
                "model.py",
                """CODE = 8  # numbers that an image is coded by
""",
                """CODE = 8  # whole numbers that an image is coded by
""",
            ),
            Edit(
                "model.py",
                '''    """Images -> mean and log variance of the code (batch, 2 * CODE); code -> images."""
''',
                '''    """Images -> the code before it is rounded (batch, CODE); code -> images."""
''',
            ),
            Edit(
                "model.py",
                """    encoder = keras.Model(images, layers.Dense(2 * CODE, dtype=floatx)(x), name="encoder")
""",
                """    encoder = keras.Model(images, layers.Dense(CODE, dtype=floatx)(x), name="encoder")
""",
            ),
            Edit(
                "losses.py",
                '''def kl_divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """From the code to a standard normal distribution, (batch, code) -> (batch,)."""
    each = tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0
    return 0.5 * tf.reduce_sum(each, axis=1)
''',
                '''def quantized(code: tf.Tensor, levels: int) -> tf.Tensor:
    """Each number of a code as one of `levels`, an odd number, whole numbers around 0.

    Forward it is rounded, backward it is not (Mentzer et al., 2023).
    """
    bounded = (levels // 2) * tf.tanh(code)
    return bounded + tf.stop_gradient(tf.round(bounded) - bounded)
''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss, kl_divergence, means

WARM_UP = 200  # steps until the KL divergence counts in full
""",
                """from .losses import compute_loss, means, quantized

LEVELS = 5  # of each number of a code
""",
            ),
            Edit(
                "steps.py",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=True), 2, axis=1)  # (batch, CODE)
    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)
    decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
    error = run.losses["main"](images, decoded)  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "kl": kl}, weights, replica)}
''',
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)
''',
            ),
            Edit(
                "steps.py",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=False), 2, axis=1)  # (batch, CODE)
    error = run.losses["main"](images, decoder(mean, training=False))  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    loss = compute_loss(error + kl, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "kl": kl}, weights, replica)}
''',
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)
''',
            ),
            Edit(
                "steps.py",
                "TRAIN_STEPS = (train_step,)",
                """def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    code = quantized(encoder(images, training=training), LEVELS)  # (batch, CODE)
    error = run.losses["main"](images, decoder(code, training=training))  # (batch,)
    loss = compute_loss(error, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error}, weights, replica)}


TRAIN_STEPS = (train_step,)""",
            ),
            Edit(
                "steps.py",
                """TERMS = ("error", "kl")  # reported beside the loss
""",
                """TERMS = ("error",)  # reported beside the loss
""",
            ),
        ),
    ),
    change_of(
        "vae",
        name="importance-weighted bound with eight samples, sixty-four in evaluation",
        edits=(
            Edit(
                "losses.py",
                '''def kl_divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """From the code to a standard normal distribution, (batch, code) -> (batch,)."""
    each = tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0
    return 0.5 * tf.reduce_sum(each, axis=1)
''',
                '''def kl_divergence(mean: tf.Tensor, log_variance: tf.Tensor) -> tf.Tensor:
    """From the code to a standard normal distribution, (batch, code) -> (batch,)."""
    each = tf.square(mean) + tf.exp(log_variance) - log_variance - 1.0
    return 0.5 * tf.reduce_sum(each, axis=1)


def importance_weighted(log_weights: tf.Tensor) -> tf.Tensor:
    """Minus the bound of Burda et al. (2016), (batch, samples) -> (batch,)."""
    log_sum = tf.reduce_logsumexp(log_weights, axis=1)
    return tf.math.log(tf.cast(log_weights.shape[1], log_sum.dtype)) - log_sum
''',
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss, kl_divergence, means

WARM_UP = 200  # steps until the KL divergence counts in full
""",
                """from .losses import compute_loss, importance_weighted, kl_divergence, means

SAMPLES, EVALUATION_SAMPLES = 8, 64  # codes for each image; the more, the tighter is the bound
VARIANCE = 0.05  # of a pixel, given the code
""",
            ),
            Edit(
                "steps.py",
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=True), 2, axis=1)  # (batch, CODE)
    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)
    decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
    error = run.losses["main"](images, decoded)  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "kl": kl}, weights, replica)}
''',
                '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, SAMPLES, training=True)
''',
            ),
            Edit(
                "steps.py",
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=False), 2, axis=1)  # (batch, CODE)
    error = run.losses["main"](images, decoder(mean, training=False))  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    loss = compute_loss(error + kl, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    return {"main": loss, **means({"error": error, "kl": kl}, weights, replica)}
''',
                '''def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, EVALUATION_SAMPLES, training=False)
''',
            ),
            Edit(
                "steps.py",
                "TRAIN_STEPS = (train_step,)",
                '''def _step(
    run: Run, batch: Batch, replica: Replica, samples: int, *, training: bool
) -> dict[str, tf.Tensor]:
    """A bound of -log p(image), up to a constant, by several codes for each image."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=training), 2, axis=1)  # (batch, CODE)
    rows, length = mean.shape
    # In evaluation too: the bound is an expectation. The seed follows from the batch's number.
    noise = tf.random.stateless_normal((rows, samples, length), replica.seed, dtype=mean.dtype)
    code = mean[:, tf.newaxis] + tf.exp(0.5 * log_variance)[:, tf.newaxis] * noise
    decoded = decoder(tf.reshape(code, (rows * samples, length)), training=training)
    error = run.losses["main"](tf.repeat(images, samples, axis=0), decoded)
    error = tf.reshape(error, (rows, samples))
    # log p(code) - log q(code | image), in which the constants cancel.
    each = tf.square(noise) + log_variance[:, tf.newaxis] - tf.square(code)
    log_weights = 0.5 * tf.reduce_sum(each, axis=2) - 0.5 * error / VARIANCE  # (batch, samples)
    loss = compute_loss(importance_weighted(log_weights), weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    terms = {"error": tf.reduce_mean(error, axis=1), "kl": kl_divergence(mean, log_variance)}
    return {"main": loss, **means(terms, weights, replica)}


TRAIN_STEPS = (train_step,)''',
            ),
        ),
    ),
    change_of(
        "forecasting",
        name="each window normalized by its own past, and the forecast put back",
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
                '''    """Means and variances of what is there: of each column, and of what to forecast."""
    inputs, labels = datasets["train"]
''',
                '''    """Means and variances of what is there, of each column."""
    inputs, _ = datasets["train"]
''',
            ),
            Edit(
                "model.py",
                """        "label_mean": np.nanmean(labels),
        "label_std": np.nanstd(labels),
""",
                "",
            ),
            Edit(
                "model.py",
                """    missing = ops.isnan(scaled)
    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
                """    missing = ops.isnan(scaled)
    known, there = ops.where(missing, 0.0, scaled), 1.0 - ops.cast(missing, floatx)
    # Level and spread of this window's past (RevIN: Kim et al., 2022), (batch, 1, columns): of the
    # values that are there and of one more, 0 with variance 1, lest there is none.
    number = ops.sum(there, axis=1, keepdims=True) + 1.0
    level = ops.sum(known, axis=1, keepdims=True) / number
    away = there * (known - level)
    spread = ops.sqrt((ops.sum(ops.square(away), axis=1, keepdims=True) + 1.0) / number)
    x = layers.Concatenate()([away / spread, 1.0 - there])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    # Back to where the window was, then to units of the data.
    x = x * ops.take(spread, TARGET, axis=2) + ops.take(level, TARGET, axis=2)
    return keras.Model(past, x * float(variance[TARGET]) ** 0.5 + float(mean[TARGET]))
""",
            ),
        ),
    ),
    change_of(
        "forecasting",
        name="recent windows weigh more, correction of yesterday's values from zero",
        edits=(
            Edit(
                "config.py",
                """    units: int = 32  # units of the hidden layer
""",
                """    units: int = 32  # units of the hidden layer
    half_life: float = 400.0  # hours in which the weight of a training window halves
""",
            ),
            Edit(
                "config.py",
                """        if not self.learning_rate > 0:
""",
                """        if not self.half_life > 0:
            raise ValueError(f"--half-life is {self.half_life}; it must be more than 0.")
        if not self.learning_rate > 0:
""",
            ),
            Edit(
                "data.py",
                '''    """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing."""
''',
                '''    """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing.

    In training with weights float32 (n,) of mean 1, larger for later windows.
    """
''',
            ),
            Edit(
                "data.py",
                """    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}
""",
                """    splits: dict[str, Any] = {
        name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)
    }
    age = np.arange(len(splits["train"][0]))[::-1]  # in hours, of the windows in order of time
    weights = 0.5 ** (age / task.half_life)
    # Their mean is 1, so the loss can be divided by the number of values.
    splits["train"] = (*splits["train"], (weights / weights.mean()).astype(np.float32))
    return splits
""",
            ),
            Edit(
                "model.py",
                """from .data import COLUMNS, FUTURE, PAST
""",
                """from .data import COLUMNS, FUTURE, PAST, TARGET
""",
            ),
            Edit(
                "model.py",
                '''    """Means and variances of what is there: of each column, and of what to forecast."""
    inputs, labels = datasets["train"]
''',
                '''    """Means and variances of what is there, of each column."""
    inputs, *_ = datasets["train"]
''',
            ),
            Edit(
                "model.py",
                """        "label_mean": np.nanmean(labels),
        "label_std": np.nanstd(labels),
""",
                "",
            ),
            Edit(
                "model.py",
                """    x = layers.Concatenate()([ops.where(missing, 0.0, scaled), ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    x = layers.Dense(FUTURE, dtype=floatx)(x)
    return keras.Model(past, x * float(adapted["label_std"]) + float(adapted["label_mean"]))
""",
                """    known = ops.where(missing, 0.0, scaled)
    x = layers.Concatenate()([known, ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))
    # A correction of the values at the same hours of yesterday, which are the first of the past
    # (PAST is a day); none at first, as the kernel and the bias are 0.
    x = layers.Dense(FUTURE, kernel_initializer="zeros", dtype=floatx)(x)
    yesterday = layers.Cropping1D((0, PAST - FUTURE), dtype=floatx)(known)
    x = x + ops.take(yesterday, TARGET, axis=2)  # (batch, FUTURE)
    return keras.Model(past, x * float(variance[TARGET]) ** 0.5 + float(mean[TARGET]))
""",
            ),
        ),
    ),
    change_of(
        "finetuning",
        name="gradual unfreezing, a learning rate for each depth, and decay toward the pretrained kernels",
        edits=(
            Edit(
                "config.py",
                "    l2: float = 1e-4  # factor",
                """    l2_start: float = 1e-2  # factor of the squared way from the pretrained kernels; 0 disables
    l2: float = 1e-4  # factor""",
            ),
            Edit(
                "config.py",
                """        for name in ("l2", "shift"):
""",
                """        for name in ("l2", "l2_start", "shift"):
""",
            ),
            Edit(
                "model.py",
                "# TODO(4): what your model takes",
                '''class TowardStart(keras.regularizers.Regularizer):
    """The squared distance from where a weight started (L2-SP: Li et al., 2018)."""

    def __init__(self, start: np.ndarray, factor: float) -> None:
        self.start, self.factor = start, factor

    def __call__(self, x: Any) -> Any:
        """A scalar, 0 at the start."""
        return self.factor * keras.ops.sum(keras.ops.square(x - self.start))

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"start": self.start, "factor": self.factor}


# TODO(4): what your model takes''',
            ),
            Edit(
                "model.py",
                """    images = keras.Input(adapted["shape"], name="images")
""",
                """        if isinstance(layer, keras.layers.Conv2D):
            # Of the file, also in a resumed run, which restores its weights later.
            layer.kernel.regularizer = TowardStart(layer.kernel.numpy(), task.l2_start)
    images = keras.Input(adapted["shape"], name="images")
""",
            ),
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)
    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)
""",
                '''
    def adam(rate: float, frozen_steps: int) -> keras.optimizers.Optimizer:
        """An optimizer makes and counts no steps while all of its weights are frozen."""
        left = max(1, steps - frozen_steps)
        return keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(rate, left))

    # The deeper below the output, the later and the slower (Howard & Ruder, 2018).
    head = adam(task.learning_rate, 0)
    upper = adam(task.learning_rate / 8, task.frozen_steps)
    lower = adam(task.learning_rate / 64, 4 * task.frozen_steps)

    def of_depth(variable: keras.Variable) -> keras.optimizers.Optimizer:
        if variable.path.startswith("logits/"):
            return head
        return upper if "conv2d_1/" in variable.path else lower

    return keras.optimizers.MultiOptimizer(of_depth)
''',
            ),
            Edit(
                "callbacks.py",
                '''    """Train the last layer alone for --frozen-steps steps, then everything."""

    def set_trainable(event: Event, trainable: bool) -> None:
        for layer in event.run.model.get_layer("backbone").layers:
            if not isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = trainable

    return [
        at_step(0, lambda event: set_trainable(event, False)),
        at_step(task.frozen_steps, lambda event: set_trainable(event, True)),
    ]
''',
                '''    """The last layer alone, from --frozen-steps on the second convolution, then the first too."""

    def set_trainable(event: Event, *names: str) -> None:
        for layer in event.run.model.get_layer("backbone").layers:
            if not isinstance(layer, keras.layers.BatchNormalization):
                layer.trainable = layer.name in names

    return [
        at_step(0, set_trainable),
        at_step(task.frozen_steps, lambda event: set_trainable(event, "conv2d_1")),
        at_step(4 * task.frozen_steps, lambda event: set_trainable(event, "conv2d_1", "conv2d")),
    ]
''',
            ),
        ),
    ),
    change_of(
        "two_heads",
        name="heads shall agree on parity, on unlabeled images too",
        edits=(
            Edit(
                "losses.py",
                """    weights = weights_of_heads(batch)
    return {head: tf.math.count_nonzero(weights[head], dtype=tf.int32) for head in HEADS}
""",
                """    weights = weights_of_heads(batch) | {"agreement": batch[-1]}  # which needs no label
    return {name: tf.math.count_nonzero(w, dtype=tf.int32) for name, w in weights.items()}
""",
            ),
            Edit(
                "losses.py",
                '''    """How many labels of each head count, int32 scalars."""
''',
                '''    """How many labels of each head count, and how many images, int32 scalars."""
''',
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number",
                '''def disagreement(outputs: dict[str, tf.Tensor]) -> tf.Tensor:
    """How differently both heads say that an image is even, float (batch,), from 0 to 1.

    Args:
        outputs: logits (batch, 10) of "digit" and (batch, 2) of "even", where class 1 is even.
    """
    by_digit = tf.reduce_sum(tf.nn.softmax(outputs["digit"])[:, ::2], axis=1)  # 0, 2, 4, 6, 8
    return tf.square(by_digit - tf.nn.softmax(outputs["even"])[:, 1])


# TODO(10): the number''',
            ),
            Edit(
                "metrics.py",
                """    return {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}
""",
                """    accuracies = {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}
    return {**accuracies, "consistent": keras.metrics.Mean()}  # images of which both say the same
""",
            ),
            Edit(
                "steps.py",
                """from .losses import HEADS, weights_of_heads
""",
                """from .losses import HEADS, disagreement, weights_of_heads
""",
            ),
            Edit(
                "steps.py",
                """    images, labels, _ = batch
""",
                """    images, labels, everyone = batch
""",
                "*",
            ),
            Edit(
                "steps.py",
                """    regularization = tf.nn.scale_regularization_loss(replica.regularization(run.model))
""",
                """    terms["agreement"] = tf.nn.compute_average_loss(
        disagreement(outputs),
        sample_weight=everyone,
        global_batch_size=replica.global_count["agreement"],
    )
    digit, even = (tf.argmax(outputs[head], axis=1) for head in HEADS)
    run.metrics["consistent"].update_state(1 - digit % 2 == even, everyone)
    regularization = tf.nn.scale_regularization_loss(replica.regularization(run.model))
""",
                "*",
            ),
            Edit(
                "steps.py",
                """TERMS = HEADS  # the loss of each head is reported too
""",
                """TERMS = (*HEADS, "agreement")  # the loss of each head is reported too, and of both
""",
            ),
        ),
    ),
    change_of(
        "distillation",
        name="function matching: mixed images labeled by the teacher alone",
        edits=(
            Edit(
                "data.py",
                """    if not task.shift:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
""",
                """
    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
""",
            ),
            Edit(
                "data.py",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """        images = keras.ops.image.affine_transform(images, transforms)
        # At least half of an image, and of another one the rest (Zhang et al., 2018). Labels are
        # those of the larger part, for the accuracy; the loss asks the teacher about the mixture.
        other_seed = tf.random.experimental.stateless_fold_in(seed, 1)
        shape = (images.shape[0], 1, 1, 1)
        share = tf.random.stateless_uniform(shape, other_seed, 0.5, 1.0, dtype=images.dtype)
        return share * images + (1 - share) * tf.roll(images, 1, axis=0), labels, weights
""",
            ),
            Edit(
                "losses.py",
                """    hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    soft = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")
    return {"hard": hard, "soft": soft}
""",
                """    return {"soft": keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")}
""",
            ),
            Edit(
                "steps.py",
                """TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels
""",
                """TEMPERATURE = 2.0
""",
            ),
            Edit(
                "steps.py",
                """    hard = run.losses["hard"](labels, logits)  # (batch,)
""",
                "",
                "*",
            ),
            Edit(
                "steps.py",
                """    per_example = HARD * hard + (1 - HARD) * TEMPERATURE**2 * soft  # (batch,)
""",
                """    per_example = TEMPERATURE**2 * soft  # (batch,); no label is in it
""",
                "*",
            ),
        ),
    ),
)
