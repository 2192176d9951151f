"""Faults of a twenty-second examiner, in starters and in tasks that owners built; blind to `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

FAULTS: tuple[Fault, ...] = (
    Fault(
        starter="image_classification",
        name="rotation augmentation gives degrees to cos and sin",
        kind="augmentation",
        cause="--rotation is in degrees, but the angle goes to tf.cos and tf.sin, which take radians, so images are turned by any angle.",
        file="data.py",
        named=r"radian|degree|deg2rad|tf\.(cos|sin)|(any|arbitrary|full|whole|too (large|strong|much)).{0,40}(angle|rotat|turn)|rotat\w*.{0,80}(unit|pi\b|180|too (large|strong|much)|upside)",
        edits=(
            Edit(
                "config.py",
                """    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables
""",
                """    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables
    rotation: float = 10.0  # largest random rotation of a training image, in degrees
""",
            ),
            Edit(
                "data.py",
                """        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
""",
                """        rows, center = images.shape[0], (images.shape[1] - 1) / 2
        shifts = tf.random.stateless_uniform((rows, 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        angle = tf.random.stateless_uniform((rows, 1), seed + 1, -task.rotation, task.rotation)
        cos, sin, zero = tf.cos(angle), tf.sin(angle), tf.zeros_like(dx)
        # A pixel of the result comes from its place turned around the center, then shifted.
        x = center - center * (cos - sin) + dx
        y = center - center * (sin + cos) + dy
        transforms = tf.concat([cos, -sin, x, sin, cos, y, zero, zero], axis=1)  # (batch, 8)
""",
            ),
            Edit(
                "data.py",
                """shifts each image a little.
""",
                """shifts and turns each image.
""",
            ),
        ),
    ),
    Fault(
        starter="image_classification",
        name="learning rates come from an iterator that a resume starts anew",
        kind="state",
        cause="The callback takes each epoch's learning rate from a generator, whose place is in no checkpoint: after --resume it begins again at the first rates instead of following event.epoch.",
        file="callbacks.py",
        named=r"resum|get_state|set_state|iterator|generator|itertools|next\(|event\.epoch|(not|never|in no|isn't).{0,40}(saved|checkpoint)",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
                """    return keras.optimizers.Adam(task.learning_rate)  # which a callback lowers
""",
            ),
            Edit(
                "optimizer.py",
                """# TODO(7): your optimizer, or a dict with one for each model; default: Adam with a cosine schedule.
""",
                """# TODO(7): your optimizer, or a dict with one for each model; Adam.
""",
            ),
            Edit(
                "config.py",
                """    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine
""",
                """    learning_rate: float = 2e-3  # learning rate at the start
    decay: float = 0.9  # what it is multiplied by after each epoch
""",
            ),
            Edit(
                "callbacks.py",
                """from ..engine.callbacks import Callback
from .config import TaskConfig
""",
                """from itertools import count

from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig
""",
            ),
            Edit(
                "callbacks.py",
                '''default: none.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    return []
''',
                '''default: lowers the
# learning rate after each epoch.
def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    """
    rates = (task.learning_rate * task.decay**epoch for epoch in count(1))

    def lower(event: Event) -> None:
        event.run.optimizers["main"].learning_rate = next(rates)

    return [every_epochs(1, lower)]
''',
            ),
        ),
    ),
    Fault(
        starter="segmentation",
        name="classes absent from an image count as an iou of 1",
        kind="metrics",
        cause="The IoU is averaged per image over all 11 classes, and a class that is neither in the image nor predicted gets (0 + SMOOTH) / (0 + SMOOTH) = 1.",
        file="metrics.py",
        named="absent|missing class|empty|not (there|present|in the image)|smooth|0 ?/ ?0|per[- ]image|each image|inflat|too high|iou of 1|perfect",
        edits=(
            Edit(
                "metrics.py",
                """# TODO(6): your metrics, under their names in history.csv; default: intersection over union,
# averaged over all classes, background included.
""",
                '''SMOOTH = 1e-6  # against 0 / 0


class ImageIoU(keras.metrics.Mean):
    """Intersection over union of an image, averaged over the classes, then over the images."""

    def update_state(self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add the images of a batch.

        Args:
            labels: int32 (batch, h, w).
            logits: float (batch, h, w, CLASSES).
            sample_weight: float (batch, h, w), the same for all pixels of an image.
        """
        counts = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
        predicted = tf.argmax(logits, axis=-1, output_type=tf.int32)
        truth = counts * tf.one_hot(labels, CLASSES, dtype=logits.dtype)
        guess = counts * tf.one_hot(predicted, CLASSES, dtype=logits.dtype)
        intersection = tf.reduce_sum(truth * guess, axis=[1, 2])  # (batch, CLASSES)
        union = tf.reduce_sum(truth + guess, axis=[1, 2]) - intersection
        iou = (intersection + SMOOTH) / (union + SMOOTH)
        super().update_state(tf.reduce_mean(iou, axis=1), sample_weight[:, 0, 0])


# TODO(6): your metrics, under their names in history.csv; default: intersection over union,
# averaged over all classes, background included.
''',
            ),
            Edit(
                "metrics.py",
                """    mean_iou = keras.metrics.MeanIoU(
        CLASSES,
        ignore_class=IGNORED,
        sparse_y_pred=False,
        dtype=keras.config.floatx(),  # the default is an int, which rounds a weight of 0.5 to 0
    )
    return {"mean_iou": mean_iou}
""",
                """    return {"mean_iou": ImageIoU()}
""",
            ),
        ),
    ),
    Fault(
        starter="segmentation",
        name="batch dice of each replica's own rows",
        kind="distribution",
        cause="Dice is a ratio of sums over the rows of this replica (or micro-batch) only; it must be of the sums over the global batch (gathered), with EXAMPLES_INTERACT = True.",
        file="steps.py",
        named="dice.{0,200}(replica|global|gather|batch|micro|accumul|interact|devices)|(replica|global|gather|micro|accumul|interact|other rows|examples).{0,200}dice|EXAMPLES_INTERACT|depends on the (number of replicas|others|other examples)|examples (of a batch )?interact",
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
                """# TODO(10): the number that the loss of a batch is divided by; default: the number of
# examples whose weight isn't 0.
""",
                '''def dice_loss(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """1 - Dice of each class over all pixels of the batch, averaged over the classes: a scalar.

    Over the batch and not over each image, in which most classes don't occur.

    Args:
        labels: int (batch, h, w); ignored pixels don't count.
        logits: float (batch, h, w, classes).
        weights: float (batch,), 0 for padding.
    """
    counts = tf.cast(labels != IGNORED, logits.dtype) * weights[:, tf.newaxis, tf.newaxis]
    counts = counts[..., tf.newaxis]  # (batch, h, w, 1)
    truth = counts * tf.one_hot(labels, CLASSES, dtype=logits.dtype)
    found = counts * tf.nn.softmax(logits)
    overlap = tf.reduce_sum(truth * found, axis=[0, 1, 2])  # (classes,)
    sizes = tf.reduce_sum(truth + found, axis=[0, 1, 2])
    return 1 - tf.reduce_mean((2 * overlap + 1) / (sizes + 1))


# TODO(10): the number that the loss of a batch is divided by; default: the number of
# examples whose weight isn't 0.
''',
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
    per_example += dice_loss(labels, logits, weights)
""",
                "*",
            ),
        ),
    ),
    Fault(
        starter="language_model",
        name="attention mask in pytorch's sense, true for what is hidden",
        kind="model",
        cause="Keras' attention_mask is True where a token may look, PyTorch's where it may not: with the strictly upper triangle each token attends to later tokens only, the next one, its target, included.",
        file="model.py",
        named="mask|causal|later token|future|look(s|ing)? ahead|invert|upper triang|triu|tril|next token.{0,60}(see|input|attend)|sees.{0,40}(target|answer|next)",
        edits=(
            Edit(
                "model.py",
                """    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
""",
                """    mask = np.triu(np.ones((1, length, length), bool), k=1)  # later tokens
    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
""",
            ),
            Edit(
                "model.py",
                """        x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))
""",
                """        x = x + layers.Dropout(task.dropout)(attention(y, y, attention_mask=mask))
""",
            ),
        ),
    ),
    Fault(
        starter="language_model",
        name="betas given to adamw as positional arguments",
        kind="optimizer",
        cause="The second argument of keras.optimizers.AdamW is weight_decay, not beta_1: it gets weight_decay=0.9 and beta_1=0.999.",
        file="optimizer.py",
        named="weight[_ ]?decay|beta_?1|positional|momentum",
        edits=(
            Edit(
                "optimizer.py",
                """    return keras.optimizers.Adam(schedule)
""",
                """    return keras.optimizers.AdamW(schedule, 0.9, 0.999)
""",
            ),
            Edit(
                "optimizer.py",
                """# default: Adam, its learning rate warmed up,""",
                """# default: AdamW, its learning rate warmed up,""",
            ),
        ),
    ),
    Fault(
        starter="gan",
        name="discriminator's schedule ends after a third of the run",
        kind="schedule",
        cause="The discriminator's optimizer makes three updates in each step, but its cosine schedule has decay_steps=steps, so its learning rate is 0 after a third of the run.",
        file="optimizer.py",
        named="schedule|decay_steps|learning[_ ]rate|cosine|iterations|updates (in|per|for) (a|each|every|one)? ?step|three times|a third|1/3",
        edits=(
            Edit(
                "steps.py",
                """TRAIN_STEPS = (discriminator_step, generator_step)  # called in this order on the same batch
""",
                """DISCRIMINATOR_STEPS = 3  # for each of the generator
# Called in this order in every step.
TRAIN_STEPS = (*[discriminator_step] * DISCRIMINATOR_STEPS, generator_step)
""",
            ),
        ),
    ),
    Fault(
        starter="gan",
        name="latents uniform in training and normal in evaluation",
        kind="randomness",
        cause="create_augment draws training latents uniformly in [-1, 1], as DCGAN does, while validation, test and pictures use standard normal ones.",
        file="data.py",
        named="uniform|normal|distribution of.{0,30}(latent|noise|code)|latent|prior|noise.{0,60}(differ|other|not the same)",
        edits=(
            Edit(
                "data.py",
                """        shape = (images.shape[0], task.latent)
        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights
""",
                """        shape, floatx = (images.shape[0], task.latent), keras.config.floatx()
        return images, tf.random.stateless_uniform(shape, seed, -1, 1, floatx), weights
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="missing values filled with -999",
        kind="data",
        cause="Missing values become the number -999 instead of NaN, so they enter mean and variance and the model takes them for measurements; its inputs for missing values are always 0.",
        file="data.py",
        named="-999|999|sentinel|fill|nan_to_num|missing|outlier|out of scale|tiny (spread|variance)",
        edits=(
            Edit(
                "data.py",
                '''    """Column names, data float32 (n, columns) with NaN where masked, target float32 (n,)."""
''',
                '''    """Column names, data float32 (n, columns) with FILL where masked, target float32 (n,)."""
''',
            ),
            Edit(
                "data.py",
                """    return columns, data, target
""",
                """    return columns, np.nan_to_num(data, nan=FILL), target
""",
            ),
            Edit(
                "data.py",
                """MISSING = 0.15  # fraction of their values that is removed
""",
                """MISSING = 0.15  # fraction of their values that is removed
FILL = -999  # in place of a missing value
""",
            ),
            Edit(
                "data.py",
                """    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels
""",
                """    Inputs are {"numeric": float32 (n, columns), FILL where missing; "sex": int64 (n,)}, labels
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="missing values estimated from the target too",
        kind="leak",
        cause="The regression that fills missing inputs has the target among its columns, so inputs of validation and test rows are made of their labels (and it is fitted before the split).",
        file="data.py",
        named="leak|imput|estimat|before the split|(target|label).{0,150}(input|column|feature|missing|fill|regress)|(input|column|feature|missing|fill).{0,150}(target|label)",
        edits=(
            Edit(
                "data.py",
                """    return columns, data, target
""",
                """    # Estimate what is missing by linear regression on the rest of the table.
    table = np.column_stack([data, target])
    there = ~np.isnan(table)
    table = np.where(there, table, np.nanmean(table, axis=0))
    for index in map(columns.index, MASKED):
        known = there[:, index]
        rest = np.column_stack([np.delete(table, index, axis=1), np.ones(len(table))])
        factors, *_ = np.linalg.lstsq(rest[known], table[known, index], rcond=None)
        table[~known, index] = rest[~known] @ factors
    return columns, table[:, :-1].astype(np.float32), target
""",
            ),
            Edit(
                "data.py",
                '''    """Column names, data float32 (n, columns) with NaN where masked, target float32 (n,)."""
''',
                '''    """Column names, data float32 (n, columns), masked ones estimated, target float32 (n,)."""
''',
            ),
            Edit(
                "data.py",
                """    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels
""",
                """    Inputs are {"numeric": float32 (n, columns), "sex": int64 (n,)}, labels
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="early stopping waits for a smaller r2",
        kind="callbacks",
        cause='EarlyStopping monitors val_r2, of which larger is better, with mode="min": it stops when R2 has risen for five epochs.',
        file="callbacks.py",
        named=r"mode|early ?stop|\bmin\b|larger is better|wrong direction|stops? (too )?(early|soon)|patience|improv",
        edits=(
            Edit(
                "callbacks.py",
                """from ..engine.callbacks import Callback
""",
                """import keras

from ..engine.callbacks import Callback
from ..engine.keras_callbacks import keras_callback
""",
            ),
            Edit(
                "callbacks.py",
                """default: none.
""",
                """default: stops when R2 no
# longer improves.
""",
            ),
            Edit(
                "callbacks.py",
                """    return []
""",
                """    early = keras.callbacks.EarlyStopping(monitor="val_r2", mode="min", patience=5)
    return [keras_callback(early)]
""",
            ),
        ),
    ),
    Fault(
        starter="tabular_regression",
        name="table for predict read in the order of its own columns",
        kind="evaluation",
        cause='read_table puts the columns into "numeric" in the order in which the file has them, not in that of NUMERIC, in which the model was trained.',
        file="predictions.py",
        named=r"\border|fieldnames|header|permut|read_table|column.{0,80}(mix|swap|other|wrong|differ)",
        edits=(
            Edit(
                "predictions.py",
                """    numeric = [[float(row[column] or "nan") for column in NUMERIC] for row in rows]
""",
                """    # There may be other columns too.
    columns = [name for name in reader.fieldnames or () if name in NUMERIC]
    numeric = [[float(row[column] or "nan") for column in columns] for row in rows]
""",
            ),
        ),
    ),
    fault_in(
        "contrastive",
        name="noise added in place, so both views are the same",
        kind="data",
        cause="noisy() adds the noise to the array itself and returns it, so the clean view is the very same noisy array.",
        file="data.py",
        named="in[- ]place|alias|same (array|images|object|memory|view|values|input)|identical|copy|copies|trivial|both views|duplicate|clean (view|image)",
        edits=(
            Edit(
                "data.py",
                """        noise = random.normal(0, 0.4, images.shape)
        return np.clip(images + noise, 0, 1).astype("float32")
""",
                """        images += random.normal(0, 0.4, images.shape)
        return np.clip(images, 0, 1, out=images)
""",
            ),
        ),
    ),
    fault_in(
        "contrastive",
        name="learning rate times replicas at a constant global batch",
        kind="distribution",
        cause="The learning rate is multiplied by the number of replicas, but the global batch doesn't grow with it (--global-batch-size is that of all replicas, and the gradients are those of its mean).",
        file="optimizer.py",
        named="(learning[_ ]rate|num_replicas).{0,200}(replica|device|batch|scal|times|multipl)|(replica|device).{0,200}learning[_ ]rate|linear(ly)? scal",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
""",
                """    # Scaled linearly, as by Goyal et al. (2017).
    rate = task.learning_rate * tf.distribute.get_strategy().num_replicas_in_sync
    schedule = keras.optimizers.schedules.CosineDecay(rate, decay_steps=steps)
""",
            ),
        ),
    ),
    fault_in(
        "vae",
        name="warm-up counted by a python counter",
        kind="schedule",
        cause="The counter is advanced in Python while the step is traced, once, so warm_up is a constant of the graph, 0, and the KL divergence never counts (replica.step is what changes).",
        file="steps.py",
        named=r"trac(e|ed|ing)|python|constant|warm[-_ ]?up|counter|next\(|count\(|replica\.step|\bkl\b.{0,60}(never|no|not|zero|0|ignored|unweighted|isn't)",
        edits=(
            Edit(
                "steps.py",
                """from __future__ import annotations

import tensorflow as tf
""",
                """from __future__ import annotations

from itertools import count

import tensorflow as tf
""",
            ),
            Edit(
                "steps.py",
                """WARM_UP = 200  # steps until the KL divergence counts in full
""",
                """WARM_UP = 200  # steps until the KL divergence counts in full
train_steps = count()  # so far
""",
            ),
            Edit(
                "steps.py",
                """    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
""",
                """    warm_up = min(next(train_steps) / WARM_UP, 1.0)
""",
            ),
        ),
    ),
    fault_in(
        "vae",
        name="importance-weighted bound without log of the samples",
        kind="evaluation",
        cause="The bound is the logarithm of the MEAN of the importance weights; reduce_logsumexp gives that of their sum, so log(SAMPLES) must be subtracted.",
        file="steps.py",
        named=r"log\(? ?(samples|k\b|64|of the (number|samples))|logsumexp|log-sum-exp|mean of (the )?(importance )?weights|importance|\bsum\b.{0,60}mean|number of samples|bound.{0,80}(too|log|high|low|sum)",
        edits=(
            Edit(
                "steps.py",
                """WARM_UP = 200  # steps until the KL divergence counts in full
""",
                """WARM_UP = 200  # steps until the KL divergence counts in full
SAMPLES = 64  # codes of each image in the test
""",
            ),
            Edit(
                "steps.py",
                '''# TODO(14): one test step; default: the same as in validation.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)
''',
                '''# TODO(14): one test step; default: the tighter bound of several samples.
def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The importance-weighted bound (Burda et al., 2016, arXiv:1509.00519) as the loss."""
    images, _, weights = batch
    encoder, decoder = run.models["encoder"], run.models["decoder"]
    mean, log_variance = tf.split(encoder(images, training=False), 2, axis=1)  # (batch, CODE)
    rows, numbers = mean.shape
    noise = tf.random.stateless_normal((rows, SAMPLES, numbers), replica.seed, dtype=mean.dtype)
    code = mean[:, tf.newaxis] + tf.exp(0.5 * log_variance)[:, tf.newaxis] * noise
    decoded = decoder(tf.reshape(code, (rows * SAMPLES, numbers)), training=False)
    error = run.losses["main"](tf.repeat(images, SAMPLES, axis=0), decoded)
    error = tf.reshape(error, (rows, SAMPLES))
    # Logarithms of the densities of the code, but for the same constant.
    prior = -0.5 * tf.reduce_sum(tf.square(code), axis=2)  # (batch, SAMPLES)
    posterior = -0.5 * tf.reduce_sum(tf.square(noise) + log_variance[:, tf.newaxis], axis=2)
    bound = tf.reduce_logsumexp(prior - error - posterior, axis=1)  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    loss = compute_loss(-bound, weights, encoder, replica)
    loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))
    terms = {"error": tf.reduce_mean(error, axis=1), "kl": kl}
    return {"main": loss, **means(terms, weights, replica)}
''',
            ),
        ),
    ),
    fault_in(
        "forecasting",
        name="incomplete rows dropped before the windows are cut",
        kind="data",
        cause="Rows with a missing value are taken out before windows are cut by position, so rows that follow each other aren't an hour apart any more: windows span gaps, and hour h of the forecast is a later one.",
        file="data.py",
        named="gap|consecutive|contiguous|drop|left out|incomplete|missing|hour.{0,40}(apart|shift|wrong)|irregular|time axis|nan",
        edits=(
            Edit(
                "data.py",
                '''    """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing."""
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
''',
                '''    """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE)."""
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
    rows = rows[~np.isnan(rows).any(axis=1)]
''',
            ),
            Edit(
                "data.py",
                """# A header, then a row for each hour: hour, temperature, wind; empty where missing.
""",
                """# A header, then a row for each hour: hour, temperature, wind; rows with an empty cell are left out.
""",
            ),
        ),
    ),
    fault_in(
        "forecasting",
        name="hour of the day starts at 0 in each split",
        kind="data",
        cause="The hour of the day is computed from the row number within the split, which starts at 0 in each, though validation starts at 6 o'clock (row 630) and the test at 21 (row 765).",
        file="data.py",
        named="hour|phase|clock|arange|restart|starts? (again|anew|at 0|from 0)|time of (the )?day|sine|row number",
        edits=(
            Edit(
                "data.py",
                """COLUMNS, TARGET = (1, 2), 0  # what is read of a row; which of these to forecast
""",
                """COLUMNS, TARGET = (1, 2), 0  # what is read of a row; which of these to forecast
INPUTS = len(COLUMNS) + 2  # with sine and cosine of the hour of the day
""",
            ),
            Edit(
                "data.py",
                '''    """Every window of consecutive rows: len(rows) - PAST - FUTURE + 1 of them."""
''',
                '''    """Every window of consecutive rows: len(rows) - PAST - FUTURE + 1 of them."""
    angle = 2 * np.pi * np.arange(len(rows)) / 24  # the series begins at midnight
    rows = np.column_stack([rows, np.sin(angle), np.cos(angle)]).astype(np.float32)
''',
            ),
            Edit(
                "data.py",
                '''    """Inputs float32 (n, PAST, columns), labels float32 (n, FUTURE); NaN where missing."""
''',
                '''    """Inputs float32 (n, PAST, INPUTS), labels float32 (n, FUTURE); NaN where missing."""
''',
            ),
            Edit(
                "model.py",
                """from .data import COLUMNS, FUTURE, PAST
""",
                """from .data import FUTURE, INPUTS, PAST
""",
            ),
            Edit(
                "model.py",
                """    past = keras.Input((PAST, len(COLUMNS)), name="past")
""",
                """    past = keras.Input((PAST, INPUTS), name="past")
""",
            ),
        ),
    ),
    fault_in(
        "finetuning",
        name="clone_model drops the pretrained weights",
        kind="weights",
        cause="keras.models.clone_model copies the architecture and makes new weights: the pretrained ones aren't there (set_weights is missing).",
        file="model.py",
        named="clone|pre-?trained|random(ly)? (init|weights|backbone)|set_weights|weights.{0,60}(lost|new|not (loaded|copied)|initial|file|differ)|backbone.{0,60}(random|initial|not (loaded|pretrained))|from scratch",
        edits=(
            Edit(
                "model.py",
                """    backbone = load_in_precision(BACKBONE)
""",
                """    # A copy, whose name and layers may be changed.
    backbone = keras.models.clone_model(load_in_precision(BACKBONE))
""",
            ),
        ),
    ),
    fault_in(
        "finetuning",
        name="slow backbone by scaled gradients, which adam undoes",
        kind="optimizer",
        cause="Adam divides each gradient by its own running size, so a constant factor on the backbone's gradients has no effect: the backbone trains at the full learning rate.",
        file="optimizer.py",
        named=r"adam.{0,120}(scale|invarian|normali|divid|cancel|undo|no effect)|(scal\w*|factor|multipl\w*).{0,120}(adam|no effect|cancel|nothing)|invarian|no effect|learning rate of the backbone|full learning rate",
        edits=(
            Edit(
                "optimizer.py",
                """    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)
    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)
""",
                """    return keras.optimizers.Adam(schedule)
""",
            ),
            Edit(
                "optimizer.py",
                """# default: no change.
""",
                """# default: the backbone learns more slowly than the last layer.
""",
            ),
            Edit(
                "optimizer.py",
                "# TODO(7): your optimizer",
                """BACKBONE_RATE = 0.1  # of the learning rate of the last layer


# TODO(7): your optimizer""",
            ),
            Edit(
                "optimizer.py",
                """    return gradients
""",
                """    return [
        gradient if variable.path.startswith("logits/") else BACKBONE_RATE * gradient
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
""",
            ),
        ),
    ),
    fault_in(
        "two_heads",
        name="learned weights of the losses that no optimizer trains",
        kind="weights",
        cause="The two log variances are variables of the loss and of no model, so they are among no optimizer's variables and stay 0 (and aren't saved).",
        file="losses.py",
        named="log_?variance|uncertaint|never (train|learn|change|updat)|not? (trained|trainable|updated|learned|part of|in (the|any) model|belong)|no (gradient|optimizer|model)|belongs? to no|untrained|variable.{0,100}(never|not |no |outside|belong)",
        edits=(
            Edit(
                "losses.py",
                """from typing import Any
""",
                """from collections.abc import Callable
from typing import Any
""",
            ),
            Edit(
                "losses.py",
                '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return dict.fromkeys(HEADS, entropy)
''',
                '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name: (labels, predictions) -> one number per example.

    The heads are balanced by their uncertainties, which are learned (Kendall et al., 2018).
    """
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def weighted(head: str) -> Callable[..., tf.Tensor]:
        log_variance = keras.Variable(0.0, name=f"{head}_log_variance")

        def loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
            s = tf.convert_to_tensor(log_variance)
            return tf.exp(-s) * entropy(labels, logits) + s / 2  # (batch,)

        return loss

    return {head: weighted(head) for head in HEADS}
''',
            ),
        ),
    ),
    fault_in(
        "two_heads",
        name="label 0 taken for a missing one",
        kind="labels",
        cause="The mask keeps labels above 0, while only -1 is missing: class 0 of each head (the digit 0, and odd) has weight 0 in loss, count and metrics.",
        file="losses.py",
        named="> ?0|>= ?0|class 0|label 0|label of 0|labels? (that (is|are) |of )?(0|zero)|first class|missing|-1|(mask|leave|left|drop).{0,60}(zero|odd|class)",
        edits=(
            Edit(
                "losses.py",
                """    return {head: weights * tf.cast(labels[head] >= 0, weights.dtype) for head in HEADS}
""",
                """    return {head: weights * tf.cast(labels[head] > 0, weights.dtype) for head in HEADS}
""",
            ),
        ),
    ),
    fault_in(
        "distillation",
        name="kl divergence called as in pytorch",
        kind="loss",
        cause="keras.losses.KLDivergence takes (teacher's probabilities, student's probabilities), not log-probabilities of the student first as torch's kl_div: the negative log-probabilities are clipped to epsilon, so the term is about 0 and has no gradient.",
        file="steps.py",
        named="log_?softmax|log-?prob|swap|order of the arguments|argument|kl_?div|divergence|clip|no gradient|teacher.{0,60}(no (effect|influence|gradient)|ignored|without effect|unused|doesn't)|soft.{0,40}(no|zero|0|constant)",
        edits=(
            Edit(
                "losses.py",
                """    soft = keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")
""",
                """    soft = keras.losses.KLDivergence(reduction="none")
""",
            ),
            Edit(
                "losses.py",
                """# TODO(5): your losses, each with reduction="none"; default: cross-entropy of logits.
""",
                """# TODO(5): your losses, each with reduction="none"; cross-entropy, and divergence from the teacher.
""",
            ),
            Edit(
                "steps.py",
                """    soft = run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)  # (batch,)
""",
                """    student = tf.nn.log_softmax(logits / TEMPERATURE)
    soft = run.losses["soft"](student, tf.nn.softmax(taught / TEMPERATURE))  # (batch,)
""",
                "*",
            ),
        ),
    ),
    fault_in(
        "distillation",
        name="noisy copies made before the split",
        kind="leak",
        cause="The digits are copied with a little noise first and divided afterwards, so nearly every validation and test image has copies of itself in the training data.",
        file="data.py",
        named="leak|copies|copy|duplicat|before (the )?(split|divid)|same image|overlap|near[- ](identical|duplicate|equal)|train(ing)? (data|images).{0,60}(test|validation)|contaminat",
        edits=(
            Edit(
                "data.py",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
""",
                """VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST
SPLITS = ("train", "validation", "test")
COPIES, NOISE = 4, 0.05  # of each digit, and the deviation by which they differ
""",
            ),
            Edit(
                "data.py",
                """    with np.load(DIGITS) as file:
        return {
            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
        }
""",
                '''    """The digits, four times as many: 70% for training, 15% each for validation and test."""
    with np.load(DIGITS) as file:
        images = np.concatenate([file[f"{split}_images"] for split in SPLITS]) / 16
        labels = np.concatenate([file[f"{split}_labels"] for split in SPLITS])
    random = np.random.default_rng(0)
    images, labels = np.repeat(images, COPIES, axis=0), np.repeat(labels, COPIES)
    images = np.clip(images + random.normal(0, NOISE, images.shape), 0, 1)
    order = random.permutation(len(images))
    parts = np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])
    return {split: (images[rows], labels[rows]) for split, rows in zip(SPLITS, parts, strict=True)}
''',
            ),
        ),
    ),
)

TASKS: tuple[Change, ...] = ()
