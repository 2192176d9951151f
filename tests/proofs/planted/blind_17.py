"""Faults of a nineteenth examiner, in the starters; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        starter="image_classification",
        name="validation data is the test data",
        kind="leak",
        cause="The validation split is the test split, so the best weights are selected on the test images.",
        file="data.py",
        named=r"(validation|select|monitor).*(\btest\b)|\btest\b.*(validation|select|best weights)|same (images|examples|rows|data).*(splits|test)|leak|overlap|(occur|are|is) (also )?in both",
        edits=(
            Edit(
                "data.py",
                "",
                """def _load_digits() -> dict[str, Arrays]:
    with np.load(DIGITS) as file:
        images, labels = (
            np.concatenate([file[f"train_{part}"], file[f"validation_{part}"]])
            for part in ("images", "labels")
        )
        held_out = file["test_images"] / 16, file["test_labels"]
    return {"train": (images / 16, labels), "validation": held_out, "test": held_out}
""",
                "_load_digits",
            ),
        ),
    ),
    Fault(
        starter="image_classification",
        name="mixup of images alone",
        kind="augmentation",
        cause="Mixup mixes the images with a share from 0 to 1, but neither the labels nor the loss, so half of the images carry the label of their weaker part.",
        file="data.py",
        named="mix(ed|es|ing|up| )|labels?.*(not|aren't|isn't|unchanged|don't|without|left).*(mix|blend|combin|augment|chang)|blend|images? of (two|several|other) (examples|rows)|augment.*(label|another example|other examples|rows)",
        edits=(
            Edit(
                "data.py",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """        images = keras.ops.image.affine_transform(images, transforms)
        # Each image is mixed with another one of the batch (Zhang et al., 2018).
        shape = (labels.shape[0], 1, 1, 1)
        share = tf.random.stateless_uniform(shape, seed + 1, dtype=images.dtype)
        images = share * images + (1 - share) * tf.reverse(images, [0])
        return images, labels, weights
""",
                "create_augment",
            ),
        ),
    ),
    Fault(
        starter="image_classification",
        name="regularization is not divided by the replicas",
        kind="distribution",
        cause="Each replica adds the whole regularization loss and the engine sums the replicas, so on N replicas it counts N times; tf.nn.scale_regularization_loss is missing.",
        file="losses.py",
        named=r"regulari[sz]|scale_regularization_loss|\bl2\b|weight penalty|(number of|several|more|N) replicas.*(loss|gradient)|(loss|gradient).*(number of|several|more) replicas|replicas.*(differ|times)",
        edits=(
            Edit(
                "losses.py",
                """    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
""",
                """    return loss + replica.regularization(model)
""",
            ),
        ),
    ),
    Fault(
        starter="image_classification",
        name="plateau callback has no state in checkpoints",
        kind="state",
        cause="HalveOnPlateau keeps its best loss and its patience in attributes but has no get_state and set_state, so a resumed run starts them anew.",
        file="callbacks.py",
        named="get_state|set_state|resum|checkpoint|(callback|HalveOnPlateau|patience|best|waited).*(state|lost|forg|restor|saved|anew)|state.*(callback|lost|restor)",
        edits=(
            Edit(
                "callbacks.py",
                """from ..engine.callbacks import Callback
from .config import TaskConfig
""",
                '''import math

from ..engine.callbacks import Callback, Event, every_validation
from .config import TaskConfig

PATIENCE = 4  # validations


class HalveOnPlateau:
    """Halves the learning rate when the validation loss hasn't fallen for some time."""

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.best, self.waited = math.inf, 0

    def __call__(self, event: Event) -> None:
        """After a validation."""
        loss = event.history[-1]["validation_loss"]
        if loss < self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            event.run.optimizers["main"].learning_rate = event.learning_rates["main"] / 2
            self.waited = 0
''',
            ),
            Edit(
                "callbacks.py",
                """    return []
""",
                """    return [every_validation(HalveOnPlateau(PATIENCE))]
""",
            ),
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
                """    # task/callbacks.py lowers it.
    return keras.optimizers.Adam(task.learning_rate)
""",
            ),
        ),
    ),
    Fault(
        starter="image_classification",
        name="copies of the training images are rolled over the examples",
        kind="labels",
        cause="np.roll(images, 1, axis=0) moves along the examples and not down by a pixel, so every copied image has the label of the next example.",
        file="data.py",
        named="roll|axis|labels?.*(wrong|another|other|shift|neighbou?r|next|misalign|mismatch|different|contradict|two|disagree)|(same|identical|equal|repeated|duplicate).*(image|input|row|example).*label|misalign",
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
    images, labels = splits["train"]
    # Each training image once more, a pixel lower.
    images = np.concatenate([images, np.roll(images, 1, axis=0)])
    return splits | {"train": (images, np.concatenate([labels, labels]))}
""",
                "_load_digits",
            ),
        ),
    ),
    Fault(
        starter="segmentation",
        name="rate boundaries are epochs, the schedule counts steps",
        kind="schedule",
        cause="PiecewiseConstantDecay takes boundaries in steps and gets 20 and 30 epochs, so the rate is a hundredth after 30 of 320 steps.",
        file="optimizer.py",
        named="epochs?.*steps?|steps?.*epochs?|boundar|learning rate.*(too (early|soon|small|low)|early|small|drop|fall|decay)|schedule|(small|low) learning rate",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
                """    rates = [task.learning_rate, task.learning_rate / 10, task.learning_rate / 100]
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(DROPS, rates)
    return keras.optimizers.Adam(schedule)
""",
            ),
            Edit(
                "optimizer.py",
                """from .config import TaskConfig
""",
                """from .config import TaskConfig

DROPS = [20, 30]  # when the rate falls to a tenth of what it was
""",
            ),
        ),
    ),
    Fault(
        starter="segmentation",
        name="early stopping takes the mean iou for a loss",
        kind="callbacks",
        cause="EarlyStopping has mode='min' for the mean IoU, where larger is better, so the run stops five validations after the worst one.",
        file="callbacks.py",
        named=r"mode|early.?stop|EarlyStopping|stops? (too )?early|(larger|higher|bigger).*better|direction|\bmin\b.*iou|iou.*\b(min|smaller|max)\b",
        edits=(
            Edit(
                "callbacks.py",
                """from ..engine.callbacks import Callback
from .config import TaskConfig
""",
                """import keras

from ..engine.callbacks import Callback
from ..engine.keras_callbacks import keras_callback
from .config import TaskConfig
""",
            ),
            Edit(
                "callbacks.py",
                """    return []
""",
                """    stopping = keras.callbacks.EarlyStopping(monitor="val_mean_iou", mode="min", patience=5)
    return [keras_callback(stopping)]
""",
            ),
        ),
    ),
    Fault(
        starter="segmentation",
        name="images and labels are warped differently",
        kind="augmentation",
        cause="Images and labels are warped with two seeds, hence by two different random transforms, so labels don't lie on their digits any more.",
        file="data.py",
        named="(warp|transform|augment|rotat|geometr|shear|affine).*(label|mask|different|differ|same)|labels?.*(warp|transform|move|augment|off|align|differ|fit)|misalign|two seeds|different seed|same seed",
        edits=(
            Edit(
                "data.py",
                """    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        rows, center = images.shape[0], (CANVAS - 1) / 2
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)
        offset = center - center * tf.reduce_sum(warp, axis=2, keepdims=True)  # fixes the center
        # A pixel p of the result comes from warp @ p + offset.
        transforms = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
        transforms = tf.pad(transforms, [[0, 0], [0, 2]])  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
        # "nearest", since a mean of two labels is no label.
        labels = tf.cast(labels[..., tf.newaxis], tf.float32)
        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")
        return images, tf.cast(labels[..., 0], tf.int32), weights
""",
                """    def warped(images: tf.Tensor, seed: tf.Tensor, interpolation: str) -> tf.Tensor:
        rows, center = images.shape[0], (CANVAS - 1) / 2
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)
        offset = center - center * tf.reduce_sum(warp, axis=2, keepdims=True)  # fixes the center
        # A pixel p of the result comes from warp @ p + offset.
        transforms = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
        transforms = tf.pad(transforms, [[0, 0], [0, 2]])  # (batch, 8)
        return keras.ops.image.affine_transform(images, transforms, interpolation)

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        seeds = tf.random.experimental.stateless_split(seed, 2)
        images = warped(images, seeds[0], "bilinear")
        # "nearest", since a mean of two labels is no label.
        labels = warped(tf.cast(labels[..., tf.newaxis], tf.float32), seeds[1], "nearest")
        return images, tf.cast(labels[..., 0], tf.int32), weights
""",
            ),
        ),
    ),
    Fault(
        starter="segmentation",
        name="dice over the batch of one replica",
        kind="distribution",
        cause="The Dice coefficient is a ratio of sums over this replica's batch only, so the loss depends on how the batch is divided among replicas and micro-batches (and counts padding); EXAMPLES_INTERACT says that examples don't interact.",
        file="losses.py",
        named="dice|EXAMPLES_INTERACT|interact|(replica|batch|micro-?batch).*(depend|differ|own|part|alone|ratio)|depends? on.*(batch|replica|other examples)|all_gather|padding.*(count|loss)",
        edits=(
            Edit(
                "losses.py",
                """from .data import IGNORED
""",
                """from .data import CLASSES, IGNORED
""",
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number that the loss of a batch is divided by;",
                '''def dice_loss(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """One minus the Dice coefficient, averaged over the classes; a float scalar.

    Of the whole batch, since a single canvas has few of the digits. Logits: float
    (batch, h, w, classes), labels: int (batch, h, w). Ignored pixels don't count.
    """
    is_ignored = labels == IGNORED
    counted = tf.cast(~is_ignored, logits.dtype)[..., tf.newaxis]  # (batch, h, w, 1)
    truth = counted * tf.one_hot(tf.where(is_ignored, 0, labels), CLASSES, dtype=logits.dtype)
    shares = counted * tf.nn.softmax(logits)
    common = tf.reduce_sum(truth * shares, axis=[0, 1, 2])  # (classes,)
    total = tf.reduce_sum(truth + shares, axis=[0, 1, 2])  # (classes,)
    return 1 - tf.reduce_mean((2 * common + 1) / (total + 1))


# TODO(10): the number that the loss of a batch is divided by;''',
            ),
            Edit(
                "steps.py",
                """from .losses import average_over_pixels, compute_loss
""",
                """from .losses import average_over_pixels, compute_loss, dice_loss
""",
            ),
            Edit(
                "steps.py",
                """    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
""",
                """    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)
    per_example += dice_loss(logits, labels)
""",
                "*",
            ),
        ),
    ),
    Fault(
        starter="language_model",
        name="layer normalization over the positions",
        kind="model",
        cause="LayerNormalization(axis=1) takes mean and variance over the positions of a line, so each position sees later tokens in spite of the causal mask; it should be over the features.",
        file="model.py",
        named="normali[sz]|axis|causal|future|later (token|position)|(sees|looks?|depends?).*(later|next|ahead|following|answer)|leak|positions?",
        edits=(
            Edit(
                "model.py", "layers.LayerNormalization()", "layers.LayerNormalization(axis=1)", "*"
            ),
        ),
    ),
    Fault(
        starter="language_model",
        name="padding counts in loss and accuracy",
        kind="weights",
        cause="The weights are 1 for everything after the prompt, the zeros of the padding too, so loss, count and token accuracy are averages over padding tokens.",
        file="data.py",
        named=r"padd|pad\b|zeros?.*(weight|count|loss|target)|weights?.*(after|end|line feed|mask|zero|trivial|too many)|mask|same target|constant target",
        edits=(
            Edit(
                "data.py",
                """    is_answer = np.cumsum(tokens == PROMPT_END, axis=1) > 0
    weights = (is_answer & (targets != 0)).astype("float32")
""",
                """    weights = (np.cumsum(tokens == PROMPT_END, axis=1) > 0).astype("float32")
""",
            ),
        ),
    ),
    Fault(
        starter="language_model",
        name="held-out and training dates come from the same seed",
        kind="leak",
        cause="Two generators with the same seed draw the held-out and the training days, so the first 1,440 training dates are exactly the validation and test dates.",
        file="data.py",
        named="same (seed|date|day|answer|line|row|example)|leak|overlap|(validation|test|held.out).*(in|also|among).*train|train.*(contain|also|same).*(validation|test|held.out)|duplicate|splits? (share|have)|in both|two generators",
        edits=(
            Edit(
                "data.py",
                """    source = random.Random(SEED)
    # Held-out dates first, so that they don't depend on --dates.
    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
    held_out = VALIDATION_LINES + TEST_LINES
""",
                """    held_out = VALIDATION_LINES + TEST_LINES
    # Two generators, so that held-out lines don't depend on --dates.
    source, other = random.Random(SEED), random.Random(SEED)
    days = source.sample(range(DAYS), held_out) + other.sample(range(DAYS), task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
""",
            ),
        ),
    ),
    Fault(
        starter="language_model",
        name="noise on gradients is another on each replica",
        kind="distribution",
        cause="process_gradients runs on every replica after the sum, and tf.random.normal draws other noise on each, so the copies of the weights drift apart; nor does the noise follow --seed and step in a resumed run.",
        file="optimizer.py",
        named=r"random|noise|(replica|cop(y|ies)|weights|gradients?).*(differ|diverge|drift|apart|equal|same|sync)|tf\.random\.normal|stateless|resum|reproduc|not deterministic",
        edits=(
            Edit(
                "optimizer.py",
                '''    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
                '''    """One gradient for each of `variables`, with a little noise (Neelakantan et al., 2015)."""
    return [g + tf.random.normal(g.shape, stddev=NOISE, dtype=g.dtype) for g in gradients]
''',
            ),
            Edit(
                "optimizer.py",
                """from .config import TaskConfig
""",
                """from .config import TaskConfig

NOISE = 1e-4  # standard deviation of the noise that is added to each gradient
""",
            ),
        ),
    ),
    Fault(
        starter="language_model",
        name="causal mask left out of the attention",
        kind="model",
        cause="MultiHeadAttention is called without use_causal_mask=True, so each position attends to the next tokens, which are its targets.",
        file="model.py",
        named="causal|mask|future|later (token|position)|next token|(sees|attends?|looks?|depends?).*(later|next|ahead|target|answer)|leak|copy|copies",
        edits=(
            Edit(
                "model.py",
                """        # Padding needs no mask: it comes last, and no token attends to a later one.
""",
                """        # Padding needs no mask: it comes last, and its targets have weight 0.
""",
            ),
            Edit(
                "model.py",
                "attention(y, y, use_causal_mask=True))",
                "attention(y, y))",
                "create_model",
            ),
        ),
    ),
    Fault(
        starter="gan",
        name="latents are drawn by numpy once",
        kind="randomness",
        cause="np.random runs only when tf.data traces the augmentation, so the latents are a constant: the same 96 in every step.",
        file="data.py",
        named=r"np\.random|numpy|constant|same (latent|random|noise|number|batch|in every|in each)|trac(e|ed|ing)|latents?.*(same|once|constant|fixed|repeat|never|seed)|(ignore|not use|doesn't use|regardless of).*seed|seed.*(ignor|unused|not used|no effect)|random",
        edits=(
            Edit(
                "data.py",
                """        shape = (images.shape[0], task.latent)
        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights
""",
                """        latents = np.random.standard_normal((images.shape[0], task.latent))
        return images, tf.constant(latents, keras.config.floatx()), weights
""",
            ),
        ),
    ),
    Fault(
        starter="gan",
        name="best weights are those of the lowest generator loss",
        kind="evaluation",
        cause="The generator's adversarial loss says how it does against the present discriminator and nothing about its images; the lowest value, by which the best weights are selected, comes when the discriminator is weakest.",
        file="config.py",
        named="monitor|(generator|adversarial).*loss.*(select|best|quality|measure|say|compar)|select|best (weights|epoch)|frechet|early epoch",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_frechet"',
                'monitor: str = "validation_generator_loss"',
            ),
        ),
    ),
    Fault(
        starter="gan",
        name="gradient penalty is summed over the batch",
        kind="loss",
        cause="tf.reduce_sum without axes adds up the squared slopes of all examples of the replica's batch, and every example gets that sum, so the penalty is as many times too strong as the replica has examples.",
        file="steps.py",
        named=r"penalty|R1\b|slope|reduce_sum|axis|axes|(sum|summed|depends?|mix|interact).*(batch|other examples|replica)|(batch|replica).*(sum|depend|differ|size|times)|EXAMPLES_INTERACT|per.example",
        edits=(
            Edit(
                "steps.py",
                """    generated = generator(latents, training=True)  # (batch, h, w, channels)
    on_real = discriminator(images, training=True)  # (batch, 1)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
                """    generated = generator(latents, training=True)  # (batch, h, w, channels)
    with tf.GradientTape() as tape:
        tape.watch(images)
        on_real = discriminator(images, training=True)  # (batch, 1)
    slopes = tape.gradient(on_real, images)  # (batch, h, w, channels)
    on_generated = discriminator(generated, training=True)  # (batch, 1)
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    per_example += PENALTY / 2 * tf.reduce_sum(tf.square(slopes))
""",
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                """weights (batch,)
""",
                """weights (batch,)

PENALTY = 5.0  # factor of the squared slopes on real images: R1 of Mescheder et al. (2018)
""",
            ),
        ),
    ),
    Fault(
        starter="gan",
        name="eigvalsh of a product that is not symmetric",
        kind="metrics",
        cause="The product of two covariances isn't symmetric, and eigvalsh reads its lower triangle only, as if it were, so the roots and the Frechet distance are wrong.",
        file="metrics.py",
        named="eigvalsh|eigenvalue|symmetric|hermitian|frechet.*(wrong|negative|differ|matrix|root)|matrix (square )?root|sqrtm|lower triang|negative.*frechet",
        edits=(
            Edit(
                "metrics.py",
                """        # tr (C C')^(1/2) = tr (R C' R)^(1/2) with R R = C, where R C' R is symmetric.
        values, vectors = tf.linalg.eigh(covariance)
        root = tf.matmul(vectors * _sqrt(values), vectors, transpose_b=True)
        common = tf.reduce_sum(_sqrt(tf.linalg.eigvalsh(root @ other_covariance @ root)))
""",
                """        # tr (C C')^(1/2) is the sum of the roots of the eigenvalues of C C'.
        common = tf.reduce_sum(_sqrt(tf.linalg.eigvalsh(covariance @ other_covariance)))
""",
            ),
        ),
    ),
    Fault(
        starter="gan",
        name="real images in -1 to 1, generated ones in 0 to 1",
        kind="data",
        cause="Training images are scaled to [-1, 1], while the generator ends in a sigmoid and validation and test images are in [0, 1].",
        file="data.py",
        named=r"scale|range|\[-1, 1\]|-1|normali[sz]|sigmoid|tanh|(training|train).*(differ|other).*(validation|test)|(mean|distribution|values?).*(differ|other|outside)",
        edits=(
            Edit(
                "data.py",
                """        "train": np.tile(train, (task.passes, 1, 1, 1)),
""",
                """        "train": np.tile(2 * train - 1, (task.passes, 1, 1, 1)),
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="labels and predictions broadcast to a matrix",
        kind="loss",
        cause="Labels (batch, 1) minus predictions (batch,) broadcast to (batch, batch), so each label is compared with the predictions of all examples.",
        file="losses.py",
        named=r"broadcast|shape|\(batch, batch\)|(every|each|all|other) (label|example|prediction|row)|(interact|depends? on|mix).*(example|row|batch)|EXAMPLES_INTERACT|other examples|axis",
        edits=(
            Edit(
                "losses.py",
                """    squared_error = keras.losses.MeanSquaredError(reduction="none")

""",
                "",
            ),
            Edit(
                "losses.py",
                """        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)
""",
                """        errors = (labels - predictions[:, 0]) / LABEL_DEVIATION
        return tf.reduce_mean(tf.square(errors), axis=-1)
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="standard deviations are given as variances",
        kind="data",
        cause="adapt computes standard deviations where Normalization takes variances and divides by their root, so inputs have deviations of up to 6 and an output of 1 stands for 9 points and not 77.",
        file="model.py",
        named=r"varian|standard deviation|\bstd\b|nanstd|scal(e|ed|ing)|normali[sz]|not standardi[sz]ed|unscale|deviation",
        edits=(
            Edit(
                "model.py",
                """        "variance": np.nanvar(inputs["numeric"], axis=0),
""",
                """        "variance": np.nanstd(inputs["numeric"], axis=0),
""",
            ),
            Edit(
                "model.py",
                """        "label_variance": labels.var(axis=0),
""",
                """        "label_variance": labels.std(axis=0),
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="the order of the rows is drawn with replacement",
        kind="leak",
        cause="Generator.choice draws with replacement, so the order isn't a permutation: patients come several times, in training and test both, and others never.",
        file="data.py",
        named="replac|choice|permutation|leak|overlap|duplicate|repeat|same (row|example|patient)|in both|(test|validation).*(in|also|among).*train|train.*(contain|also).*(test|validation)|splits? share",
        edits=(
            Edit(
                "data.py",
                """    order = np.random.default_rng(SPLIT_SEED).permutation(len(data))
""",
                """    order = np.random.default_rng(SPLIT_SEED).choice(len(data), len(data))
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="gradients are centered over the wrong axis",
        kind="optimizer",
        cause="Gradients of kernels (inputs, outputs) are centered over the outputs and not the inputs; the last layer has one output, so its gradient minus its mean is always 0 and its kernel never trains.",
        file="optimizer.py",
        named=r"cent(er|ral|re)|reduce_mean|axis|gradients?.*(zero|\b0\b|vanish|chang|mean)|(never|not|isn't|doesn't|don't|aren't|hardly).*(train|update|change|move|learn)|zero gradient|process_gradients",
        edits=(
            Edit(
                "optimizer.py",
                '''    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
                '''    """One gradient for each of `variables`, those of kernels centered (Yong et al., 2020)."""
    return [
        g - tf.reduce_mean(g, axis=-1, keepdims=True) if g.shape.rank > 1 else g for g in gradients
    ]
''',
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="metrics get predictions as labels",
        kind="metrics",
        cause="update_state gets predictions first and labels second; R2 isn't symmetric and divides by the variance of the predictions.",
        file="steps.py",
        named=r"\br2\b|swap|order|argument|y_true|y_pred|(predictions?|labels?).*(first|second|place|exchang|instead|as labels)|symmetric|metric",
        edits=(
            Edit(
                "steps.py",
                "update_state(labels, predictions, weights)",
                "update_state(predictions, labels, weights)",
                "*",
            ),
        ),
    ),
)

TASKS: tuple[Change, ...] = ()
