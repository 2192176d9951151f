"""Faults of an examiner in starters, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

FAULTS: tuple[Fault, ...] = (
    # ---------------------------------------------------------------- image_classification
    fault_in(
        name="digits are turned by quarter turns",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        # Each image turned by 0, 90, 180 or 270 degrees, so that four times as many are seen.\n"
                "        turned = tf.stack([tf.image.rot90(images, k) for k in range(4)], axis=1)\n"
                "        turns = tf.random.stateless_uniform((images.shape[0],), seed + 1, 0, 4, tf.int32)\n"
                "        return tf.gather(turned, turns, axis=1, batch_dims=1), labels, weights\n",
                "create_augment",
            ),
        ),
        kind="augmentation",
        cause="The augmentation turns digits upside down and on their sides while the label stays: a 6 "
        "becomes a 9, and training sees pictures that validation never has.",
        file="data.py",
        named=r"rotat|turn(ed|s)? by|quarter|rot90|upside|orientation|6 .*9|augment",
    ),
    fault_in(
        name="decay of the learning rate compounds",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n"
                "    return keras.optimizers.Adam(schedule)\n",
                "    return keras.optimizers.Adam(task.learning_rate)  # task/callbacks.py makes it smaller\n",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback, Event, every_epochs\n",
            ),
            Edit("callbacks.py", "    return []\n", "    return [every_epochs(1, _decay)]\n"),
            Edit(
                "callbacks.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\n"
                "DECAY = 0.95  # the learning rate of an epoch, divided by that of the epoch before\n\n\n"
                "def _decay(event: Event) -> None:\n"
                '    optimizer = event.run.optimizers["main"]\n'
                '    optimizer.learning_rate = event.learning_rates["main"] * DECAY**event.epoch\n',
            ),
            Edit(
                "config.py",
                "decays to 0 along a cosine",
                "5% less after each epoch",
            ),
        ),
        kind="schedule",
        cause="The callback multiplies the current, already decayed rate by DECAY**epoch, so the decay "
        "compounds: after n epochs the rate is DECAY**(n(n+1)/2) of the first, and training stands still.",
        file="callbacks.py",
        named=r"learning.?rate|\blr\b|decay|compound|vanish|too small|schedule",
    ),
    fault_in(
        name="shifts go along the diagonal only",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)\n"
                "        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)\n",
                "        shape = (images.shape[0], 1)\n"
                "        dx = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)\n"
                "        dy = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)\n",
            ),
        ),
        kind="randomness",
        cause="Both stateless draws use the same seed, so dx equals dy for each image: images are only "
        "shifted along one diagonal.",
        file="data.py",
        named=r"same (seed|numbers|random)|seed.*(twice|again|reuse|two|share)|reus\w+ .*seed|diagonal|correlat"
        r"|dx.*dy|identical|not independent|equal (numbers|draws)",
    ),
    fault_in(
        name="shifts of the test step roll the batch",
        project="image_classification",
        edits=(
            Edit(
                "steps.py",
                "    predictions = run.model(images, training=False)  # (batch, classes)\n",
                "    # The mean over an image and its copies, moved by a pixel up, down, left and right.\n"
                "    moves = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))\n"
                "    moved = [run.model(tf.roll(images, m, axis=(0, 1)), training=False) for m in moves]\n"
                "    predictions = tf.add_n(moved) / len(moves)  # (batch, classes)\n",
                "test_step",
            ),
        ),
        kind="test",
        cause="tf.roll is given the axes 0 and 1, which are batch and rows, instead of 1 and 2: two of the "
        "five predictions that are averaged are those of the neighbors in the batch, so the test depends on "
        "the order and the cut of the batches and its accuracy is too low.",
        file="steps.py",
        named=r"roll|axis|axes|(other|neighbo\w+|different) (example|image|row)|depends? on (the )?(other|batch|order)"
        r"|batch axis|across the batch|mix\w*|examples.?interact|test.?step",
    ),
    fault_in(
        name="class weights are those of the part of a batch",
        project="image_classification",
        edits=(
            Edit(
                "steps.py",
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n',
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n'
                "    # Rare digits weigh more, so that all have the same influence.\n"
                "    counts = tf.math.bincount(tf.cast(labels, tf.int32), minlength=predictions.shape[-1])\n"
                "    shares = tf.cast(counts, per_example.dtype) / per_example.shape[0]  # (classes,)\n"
                "    per_example /= predictions.shape[-1] * tf.gather(shares, labels)\n",
                "train_step",
            ),
        ),
        kind="distribution",
        cause="The class weights are computed from the rows that this replica happens to have, padding "
        "included, not from the training data: an example's loss depends on the others of its batch and on "
        "the number of replicas, and the mean weight isn't 1 where a class is absent.",
        file="steps.py",
        named=r"replica|other examples|others of|depends? on|interact|class weight|per.?batch|local|micro.?batch|padding|bincount"
        r"|accumulate|part of (a|the) batch",
    ),
    # ---------------------------------------------------------------- segmentation
    fault_in(
        name="dice coefficient is made small",
        project="segmentation",
        edits=(
            Edit(
                "losses.py", "from .data import IGNORED\n", "from .data import CLASSES, IGNORED\n"
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number",
                "def dice(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
                '    """The soft Dice coefficient of each example, float (batch,), averaged over classes."""\n'
                "    counted = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]  # (batch, h, w, 1)\n"
                "    truth = tf.one_hot(labels, CLASSES, dtype=logits.dtype) * counted\n"
                "    guess = tf.nn.softmax(logits) * counted\n"
                "    both = tf.reduce_sum(truth * guess, axis=[1, 2])  # (batch, classes)\n"
                "    sizes = tf.reduce_sum(truth + guess, axis=[1, 2])\n"
                "    return tf.reduce_mean((2 * both + 1) / (sizes + 1), axis=-1)\n\n\n"
                "# TODO(10): the number",
            ),
            Edit(
                "steps.py",
                "from .losses import average_over_pixels, compute_loss\n",
                "from .losses import average_over_pixels, compute_loss, dice\n",
            ),
            Edit(
                "steps.py",
                "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
                "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n"
                "    per_example += dice(labels, logits)\n",
                "*",
            ),
        ),
        kind="loss",
        cause="The Dice coefficient, which is 1 for a perfect overlap, is added to the loss instead of 1 minus "
        "it: the optimizer makes the overlap smaller.",
        file="steps.py",
        named=r"dice|overlap|sign|1 ?-|minimi|wrong direction|(larger|higher|lower|not (the )?low\w*) .*(right|perfect|labels)"
        r"|perfect|best possible|right answers?",
    ),
    fault_in(
        name="momentum of batch normalization as in PyTorch",
        project="segmentation",
        edits=(
            Edit(
                "model.py",
                "BatchNormalization(momentum=0.9, epsilon=0.1)",
                "BatchNormalization(momentum=0.1, epsilon=0.1)",
            ),
        ),
        kind="model",
        cause="0.1 is PyTorch's convention; in Keras momentum is the part that is kept, so the moving averages "
        "are little more than the statistics of the last batch, and evaluation is noisy.",
        file="model.py",
        named=r"momentum|moving (average|mean|variance|statistic)|batch.?norm|pytorch|last batch",
    ),
    fault_in(
        name="halves of images and labels are cut along other axes",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
                "        labels = tf.cast(labels[..., 0], tf.int32)\n"
                "        # CutMix (Yun et al., 2019): the right half comes from another canvas of the batch.\n"
                "        is_left = (tf.range(CANVAS) < CANVAS // 2)[:, tf.newaxis]\n"
                "        images = tf.where(is_left, images, tf.reverse(images, [0]))\n"
                "        labels = tf.where(is_left, labels, tf.reverse(labels, [0]))\n"
                "        return images, labels, weights\n",
            ),
        ),
        kind="augmentation",
        cause="A mask of shape (32, 1) is broadcast over columns of images (batch, h, w, 1), but over rows of "
        "labels (batch, h, w): images get the right half of another canvas and labels the lower half, so that "
        "in half of the pixels labels don't belong to the image.",
        file="data.py",
        named=r"label.*(image|input|pixel)|(image|input).*label|broadcast|axis|axes|half|halves|cutmix|mask|augment|together|mis\w*align",
    ),
    fault_in(
        name="focal loss weighs by the highest probability",
        project="segmentation",
        edits=(
            Edit(
                "losses.py",
                '    return {"main": cross_entropy}\n',
                "\n"
                "    def focal(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
                '        """Less weight for pixels of which the model is sure (Lin et al., 2017)."""\n'
                "        sure = tf.reduce_max(tf.nn.softmax(logits), axis=-1)  # (batch, h, w)\n"
                "        return tf.square(1 - sure) * cross_entropy(labels, logits)\n"
                "\n"
                '    return {"main": focal}\n',
            ),
            Edit(
                "losses.py",
                "def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:",
                "def create_losses(task: TaskConfig) -> dict[str, Any]:",
            ),
        ),
        kind="loss",
        cause="The focal factor takes the largest probability instead of that of the label: a pixel that is "
        "wrong and sure gets a loss near 0, so being sure of anything lowers the loss.",
        file="losses.py",
        named=r"focal|confiden|\bsure\b|highest|largest prob|max\w* prob|reduce_max|wrong.*(small|low|less|near 0|smaller)"
        r"|probability of the (label|right|true)|(low|small)\w* .*wrong|monoton|worse",
    ),
    fault_in(
        name="iou of the digits counts the background",
        project="segmentation",
        edits=(
            Edit(
                "metrics.py",
                '    return {"mean_iou": mean_iou}\n',
                "    # That of the digits alone, since the background is easy.\n"
                "    digit_iou = keras.metrics.IoU(\n"
                "        CLASSES,\n"
                "        target_class_ids=list(range(CLASSES - 1)),\n"
                "        ignore_class=IGNORED,\n"
                "        sparse_y_pred=False,\n"
                "        dtype=keras.config.floatx(),\n"
                "    )\n"
                '    return {"mean_iou": mean_iou, "digit_iou": digit_iou}\n',
            ),
            Edit(
                "steps.py",
                '    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n',
                '    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n'
                '    run.metrics["digit_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n',
                "*",
            ),
            Edit(
                "config.py",
                'monitor: str = "validation_mean_iou"',
                'monitor: str = "validation_digit_iou"',
            ),
        ),
        kind="metrics",
        cause="The classes of the digits are 1 to 10, and range(CLASSES - 1) is 0 to 9: the metric, which "
        "selects the best weights, counts the background and leaves out the digit 9.",
        file="metrics.py",
        named=r"digit_iou|background|target_class|class.?id|off.by.one|class(es)? (0|10)|leaves? out|ignores? (a|one|the) class"
        r"|range|never counts?",
    ),
    # ---------------------------------------------------------------- language_model
    fault_in(
        name="dates of the splits are drawn with replacement",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                "    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)\n",
                "    days = source.choices(range(DAYS), k=VALIDATION_LINES + TEST_LINES + task.dates)\n",
            ),
        ),
        kind="leak",
        cause="choices draws with replacement, so some dates of validation and test are in the training data "
        "too, there in every form.",
        file="data.py",
        named=r"leak|overlap|(two|both|several|more than one) splits|also (in|among)|same (date|line|example)|duplicat"
        r"|replacement|choices|(in|of) the training data|train.*(too|again|seen)|shared",
    ),
    fault_in(
        name="last form is never drawn",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                "seed, 0, forms, tf.int32)",
                "seed, 0, forms - 1, tf.int32)",
            ),
        ),
        kind="augmentation",
        cause="maxval is exclusive, so forms - 1 leaves out the last form: training never sees dates like "
        "19790503, and validation and test do.",
        file="data.py",
        named=r"last form|never (drawn|seen|used|picked|chosen|reach\w*|sees?)|forms?\b|maxval|exclusive|off.by.one|left out"
        r"|leaves? out|part of the (data|examples)|unused",
    ),
    fault_in(
        name="perplexity averages exponentials of the loss",
        project="language_model",
        edits=(
            Edit(
                "metrics.py",
                '        "exact_match": ExactMatch(),\n',
                '        "exact_match": ExactMatch(),\n'
                '        "perplexity": keras.metrics.Mean(),  # between how many tokens the model wavers\n',
            ),
            Edit(
                "steps.py",
                '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n',
                '    run.metrics["token_accuracy"].update_state(targets, logits, weights)\n'
                '    run.metrics["perplexity"].update_state(tf.exp(per_token), weights)\n',
                "*",
            ),
        ),
        kind="metrics",
        cause="Perplexity is exp of the mean cross-entropy; the mean of exp of each token's is larger, and a "
        "few surprising tokens make it huge.",
        file="steps.py",
        named=r"perplex|exp\b|exponential|mean of|jensen",
    ),
    fault_in(
        name="frequencies of the positions vanish",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "    # 0, 1, 2, ... in each row, computed from `tokens` to be part of the model.\n"
                "    positions = keras.ops.cumsum(keras.ops.ones_like(tokens), axis=1) - 1  # (batch, T)\n"
                "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)\n"
                "    x = x + layers.Embedding(length, task.width)(positions)\n",
                "    # Sines and cosines from fast to slow (Vaswani et al., 2017).\n"
                "    frequencies = 10_000.0 ** (-2.0 * np.arange(task.width // 2))  # (width/2,)\n"
                "    angles = np.arange(length)[:, np.newaxis] * frequencies  # (T, width/2)\n"
                "    encoding = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)  # (T, width)\n"
                "    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)\n"
                '    x = x + keras.ops.convert_to_tensor(encoding.astype("float32"))\n',
            ),
        ),
        kind="model",
        cause="The exponent isn't divided by the width (-2i instead of -2i/width), so all frequencies but the "
        "first are practically 0: nearly all of the encoding is the same constant at every position.",
        file="model.py",
        named=r"position|encoding|frequenc|sinus|sine|exponent|width|order of the tokens|constant",
    ),
    fault_in(
        name="noise of the gradients is always the same",
        project="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    # A little noise helps out of flat places (Neelakantan et al., 2015); stateless, so that it is\n"
                "    # the same on every replica.\n"
                "    return [\n"
                "        g + NOISE * tf.random.stateless_normal(g.shape, (0, i), dtype=g.dtype)\n"
                "        for i, g in enumerate(gradients)\n"
                "    ]\n",
            ),
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nNOISE = 0.01  # standard deviation of what is added to gradients\n",
            ),
        ),
        kind="randomness",
        cause="The seed (0, i) is a constant, so each step adds the same numbers: not noise, but a drift of "
        "every weight in a fixed direction, which Adam even enlarges.",
        file="optimizer.py",
        named=r"noise|same (numbers|in (each|every) step|random)|constant|seed|drift|process_gradients|bias",
    ),
    # ---------------------------------------------------------------- gan
    fault_in(
        name="latents of training are uniform",
        project="gan",
        edits=(
            Edit(
                "data.py",
                "tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx())",
                "tf.random.stateless_uniform(shape, seed, dtype=keras.config.floatx())",
            ),
        ),
        kind="data",
        cause="Training draws latents from 0 to 1, evaluation from a normal distribution: the generator is "
        "judged, and its best weights are selected, on latents that it has never been trained for.",
        file="data.py",
        named=r"latent|uniform|normal|distribut|(differ|other|range|mean|scale).*(train|validation)",
    ),
    fault_in(
        name="generator loss selects the best weights",
        project="gan",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_frechet"',
                'monitor: str = "validation_generator_loss"',
            ),
        ),
        kind="selection",
        cause="A generator's loss is low when the discriminator of the same step is weak, not when images are "
        "good: the weights that are kept and tested are those that fooled the worst discriminator.",
        file="config.py",
        named=r"monitor|generator_loss|best weights|frechet|selects?",
    ),
    fault_in(
        name="noise on real images only",
        project="gan",
        edits=(
            Edit(
                "steps.py",
                "    on_real = discriminator(images, training=True)  # (batch, 1)\n",
                "    # Noise keeps the discriminator from being too sure (Arjovsky & Bottou, 2017).\n"
                "    noise = 0.1 * tf.random.stateless_normal(tf.shape(images), replica.seed, dtype=images.dtype)\n"
                "    on_real = discriminator(images + noise, training=True)  # (batch, 1)\n",
                "discriminator_step",
            ),
        ),
        kind="train",
        cause="Instance noise is added to real images and not to generated ones, so the discriminator tells "
        "them apart by the noise, and the generator is trained to make noise.",
        file="steps.py",
        named=r"noise|real (images )?only|only (the )?real|generated.*(same|too|not)|tell.*apart|real images",
    ),
    fault_in(
        name="discriminator of two updates runs out of its schedule",
        project="gan",
        edits=(
            Edit(
                "steps.py",
                "TRAIN_STEPS = (discriminator_step, generator_step)  # called in this order on the same batch\n",
                "# Called in this order in every step; the discriminator learns twice as much.\n"
                "TRAIN_STEPS = (discriminator_step, discriminator_step, generator_step)\n",
            ),
        ),
        kind="schedule",
        cause="The discriminator's optimizer now makes two updates in a step, but its cosine still ends after "
        "`steps` updates: in the second half of the run its learning rate is 0 and the generator trains "
        "against a discriminator that stands still.",
        file="optimizer.py",
        named=r"schedule|decay|learning.?rate|twice|two updates|iterations|half|cosine|updates",
    ),
    fault_in(
        name="gradient penalty takes the norm of each pixel",
        project="gan",
        edits=(
            Edit(
                "steps.py",
                '    run.metrics["frechet"].update_state(images, generated, weights)\n',
                "    # The slope between real and generated images shall be 1 (Gulrajani et al., 2017).\n"
                "    part = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), replica.seed)\n"
                "    between = part * images + (1 - part) * generated\n"
                "    with tf.GradientTape() as tape:\n"
                "        tape.watch(between)\n"
                "        on_between = discriminator(between, training=True)  # (batch, 1)\n"
                "    slopes = tape.gradient(on_between, between)  # (batch, h, w, channels)\n"
                "    norm = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=-1) + 1e-12)\n"
                "    per_example += PENALTY * tf.reduce_mean(tf.square(norm - 1), axis=[1, 2])\n"
                '    run.metrics["frechet"].update_state(images, generated, weights)\n',
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                "\n\n# TODO(11)",
                "\nPENALTY = 1.0  # factor of the gradient penalty in the discriminator's loss\n\n\n# TODO(11)",
            ),
        ),
        kind="loss",
        cause="The norm of the gradient is taken over the channels only, pixel by pixel, instead of over all of "
        "an image: each of the 64 pixels is pushed to a slope of 1, so the norm of the whole to 8.",
        file="steps.py",
        named=r"penalty|norm\b|axis|axes|slope|per.?pixel|each pixel|lipschitz|gradient of",
    ),
    # ---------------------------------------------------------------- tabular_regression
    fault_in(
        name="empty cells are read as zero",
        project="tabular_regression",
        edits=(
            Edit(
                "predictions.py",
                'float(row[column] or "nan")',
                "float(row[column] or 0)",
            ),
        ),
        kind="predictions",
        cause="The model was trained with NaN for missing values; the reader of CSV files gives it 0, a blood "
        "pressure or cholesterol of 0, which the model takes for a measurement.",
        file="predictions.py",
        named=r"empty|missing|\bnan\b|zero|read_table|cell|reader|csv",
    ),
    fault_in(
        name="slow weights are never kept",
        project="tabular_regression",
        edits=(
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback, Event, at_step, every_steps\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    lookahead = Lookahead()\n"
                "    return [at_step(0, lookahead.start), every_steps(EVERY, lookahead.update)]\n",
            ),
            Edit(
                "callbacks.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\n"
                "EVERY = 5  # steps that the fast weights run ahead\n\n\n"
                "class Lookahead:\n"
                '    """Slow weights that follow the optimizer halfway (Zhang et al., 2019)."""\n\n'
                "    def start(self, event: Event) -> None:\n"
                '        """Before the first step: both are the same."""\n'
                "        self.slow = [v.numpy() for v in event.run.trainable_variables]\n\n"
                "    def update(self, event: Event) -> None:\n"
                '        """Move the slow weights half of the way, and go on from there."""\n'
                "        for slow, variable in zip(self.slow, event.run.trainable_variables, strict=True):\n"
                "            slow = slow + 0.5 * (variable.numpy() - slow)\n"
                "            variable.assign(slow)\n",
            ),
        ),
        kind="callbacks",
        cause="The moved slow weights are bound to a local name and never stored in self.slow, so every five "
        "steps the weights are pulled halfway back to their initial values.",
        file="callbacks.py",
        named=r"slow|lookahead|initial|callback|halfway|pull|(back|reset).*weights|weights.*(back|reset|outside|between steps)",
    ),
    fault_in(
        name="outliers are left out of the test too",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "    columns, data, target = _load()\n    category",
                "    columns, data, target = _load()\n"
                "    # Without outliers, on which a squared error would depend too much.\n"
                "    usual = np.abs(target - target.mean()) < 1.5 * target.std()\n"
                "    data, target = data[usual], target[usual]\n"
                "    category",
            ),
        ),
        kind="data",
        cause="Patients are left out by their label before the split, so validation and test lack the hard "
        "cases, which can't be known for new patients: their errors are too small.",
        file="data.py",
        named=r"outlier|filter|left out|leaves? out|remov|drop|before the split|by (its|their|the) label|unusual|range of (the )?labels"
        r"|selection|fewer (rows|examples)|rows",
    ),
    fault_in(
        name="missing values are looked for when they are filled",
        project="tabular_regression",
        edits=(
            Edit(
                "model.py",
                "    missing = ops.isnan(scaled)\n"
                "    # A missing value becomes the mean, which is 0 here, and sets an input of its own to 1.\n"
                "    numeric = ops.where(missing, 0.0, scaled)\n",
                "    # A missing value becomes the mean, which is 0 here, and sets an input of its own to 1.\n"
                "    numeric = ops.where(ops.isnan(scaled), 0.0, scaled)\n"
                "    missing = ops.isnan(numeric)\n",
            ),
        ),
        kind="model",
        cause="The indicators of missing values are computed after these were filled, so they are always 0: "
        "nine inputs of the model are dead and it can't tell a missing value from an average one.",
        file="model.py",
        named=r"missing|isnan|\bnan\b|indicator|always (0|zero|false|the same)|constant|dead|no gradient|never|no effect",
    ),
)
TASKS: tuple[Change, ...] = ()
