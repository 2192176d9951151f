"""Faults of an examiner in the starters, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

FAULTS: tuple[Fault, ...] = (
    # ---------------------------------------------------------------- image_classification
    fault_in(
        name="shifted copies made before the split",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """    with np.load(DIGITS) as file:
        return {
            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
        }
""",
                """    splits = ("train", "validation", "test")
    with np.load(DIGITS) as file:
        images = np.concatenate([file[f"{split}_images"] for split in splits]) / 16
        labels = np.concatenate([file[f"{split}_labels"] for split in splits])
    # Twice as many: each digit also a pixel further to the right.
    images = np.concatenate([images, np.roll(images, 1, axis=2)])
    labels = np.tile(labels, 2)
    order = np.random.default_rng(0).permutation(len(images))
    parts = np.split(order, [2_400, 2_994])
    return {split: (images[rows], labels[rows]) for split, rows in zip(splits, parts, strict=True)}
""",
            ),
        ),
        kind="leak",
        cause="The shifted copies are made before the random split, so most test and validation digits have their copy in the training data.",
        file="data.py",
        named=r"leak|(cop(y|ies)|shift|roll|augment|duplicat).{0,120}(before|across|both|several|other|test|validation|split)|(test|validation).{0,100}(cop(y|ies)|duplicat|same (digit|image)|near|seen|overlap|shared?)|overlap|split.{0,60}after",
    ),
    fault_in(
        name="decay steps given in epochs",
        project="image_classification",
        edits=(
            Edit(
                "config.py",
                "    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine\n",
                "    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine\n"
                "    decay_epochs: int = 40  # epochs in which it decays\n",
            ),
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
                "    schedule = keras.optimizers.schedules.CosineDecay(\n"
                "        task.learning_rate, decay_steps=task.decay_epochs\n"
                "    )\n",
            ),
        ),
        kind="schedule",
        cause="decay_steps counts train steps but gets a number of epochs, so the learning rate is 0 after 40 of the 480 steps.",
        file="optimizer.py",
        named=r"epochs?.{0,100}(steps?|unit)|steps?.{0,100}epochs?|(learning rate|schedule|decay|cosine|lr).{0,120}(zero|\b0\b|too (early|soon|short|fast)|wrong unit|ends?|over|before|vanish|of the run)",
    ),
    fault_in(
        name="images standardized by their batch",
        project="image_classification",
        edits=(
            Edit(
                "model.py",
                "    x = images\n    for filters in (32, 64):\n",
                "    ops = keras.ops\n"
                "    # Each pixel with mean 0 and deviation 1.\n"
                "    x = images - ops.mean(images, axis=0, keepdims=True)\n"
                "    x = x / (ops.std(images, axis=0, keepdims=True) + 1e-3)\n"
                "    for filters in (32, 64):\n",
            ),
        ),
        kind="model",
        cause="The model standardizes with the mean and deviation of whatever batch it gets, not of the training data, so a prediction depends on the other images of the batch and on the number of replicas.",
        file="model.py",
        named=r"batch.{0,120}(statistic|mean|deviation|std|standardi|normali|depend|other|axis|interact)|(mean|std|standardi|normali|statistic|axis.?=?.?0|depend|other (examples|images|rows)|mix|interact).{0,120}(batch|examples|images|rows)|examples? (influence|affect|interact|change)|single image|(number of )?replicas",
    ),
    fault_in(
        name="one seed for the shifts along both axes",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
""",
                """        shape = images.shape[0], 1
        dx = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)  # (batch, 1)
        dy = tf.random.stateless_uniform(shape, seed, -task.shift, task.shift)  # (batch, 1)
""",
            ),
        ),
        kind="augmentation",
        cause="Both draws use the same stateless seed, so dx equals dy and images move along one diagonal only.",
        file="data.py",
        named=r"same (seed|random|number|draw|shift|value|offset)|seed.{0,100}(twice|same|both|reuse|again|two|more than once|several)|diagonal|dx.{0,40}(equal|same|identical|==|=).{0,20}dy|correlat|(twice|two|both|identical|reuse).{0,100}(seed|draw|random)",
    ),
    fault_in(
        name="summed gradients divided by replicas",
        project="image_classification",
        edits=(
            Edit("config.py", "    learning_rate: float = 2e-3", "    learning_rate: float = 5e-2"),
            Edit(
                "optimizer.py",
                "    return keras.optimizers.Adam(schedule)\n",
                "    return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)\n",
            ),
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    replicas = tf.distribute.get_replica_context().num_replicas_in_sync\n"
                "    return [gradient / replicas for gradient in gradients]\n",
            ),
        ),
        kind="distribution",
        cause="The loss is already divided by the global count, so the sum over replicas is the mean; process_gradients divides it by the number of replicas once more.",
        file="optimizer.py",
        named=r"(divid|scal|averag|mean|small|weak|shrink).{0,150}(replica|twice|again|once more|double)|replica.{0,150}(divid|scal|averag|mean|small|weak|twice|again|differ|other|depend)|1 ?/ ?(n|replicas)|process_gradients.{0,120}(replica|differ)",
    ),
    # ---------------------------------------------------------------- segmentation
    fault_in(
        name="labels not warped with the images",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                """        images = keras.ops.image.affine_transform(images, transforms)
        # "nearest", since a mean of two labels is no label.
        labels = tf.cast(labels[..., tf.newaxis], tf.float32)
        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")
        return images, tf.cast(labels[..., 0], tf.int32), weights
""",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
            ),
        ),
        kind="augmentation",
        cause="The augmentation warps the images but leaves their label maps as they were, so pixels and labels don't match.",
        file="data.py",
        named=r"(label|mask|target|annotation)s?.{0,150}(not|un|without|left|stay|same|misalign|match|move|warp|transform|align)|(image|warp|transform|augment).{0,100}(but not|without|only|alone).{0,60}|misalign",
    ),
    fault_in(
        name="absent classes have dice one",
        project="segmentation",
        edits=(
            Edit(
                "config.py",
                '    monitor: str = "validation_mean_iou"',
                '    monitor: str = "validation_dice"',
            ),
            Edit(
                "metrics.py",
                "# TODO(6): your metrics,",
                '''SMOOTH = 1.0  # pixels


class Dice(keras.metrics.Mean):
    """The Dice coefficient, averaged over classes and images."""

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add the images of a batch.

        Args:
            labels: int32 (batch, h, w).
            logits: float (batch, h, w, classes).
            sample_weight: float (batch,).
        """
        counted = tf.cast(labels != IGNORED, tf.float32)[..., tf.newaxis]
        truth = tf.one_hot(labels, CLASSES)  # all 0 for an ignored pixel
        predicted = tf.one_hot(tf.argmax(logits, axis=-1), CLASSES) * counted
        overlap = tf.reduce_sum(truth * predicted, axis=[1, 2])  # (batch, classes)
        total = tf.reduce_sum(truth + predicted, axis=[1, 2])  # (batch, classes)
        dice = (2 * overlap + SMOOTH) / (total + SMOOTH)
        super().update_state(tf.reduce_mean(dice, axis=-1), sample_weight)


# TODO(6): your metrics,''',
            ),
            Edit(
                "metrics.py",
                '    return {"mean_iou": mean_iou}\n',
                '    return {"mean_iou": mean_iou, "dice": Dice()}\n',
            ),
            Edit(
                "steps.py",
                '    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n',
                '    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))\n'
                '    run.metrics["dice"].update_state(labels, logits, weights)\n',
                "*",
            ),
        ),
        kind="metrics",
        cause="With the smoothing a class that is neither in the image nor predicted has Dice (0 + 1) / (0 + 1) = 1, and most of the 11 classes are absent from any one image.",
        file="metrics.py",
        named=r"(absent|empty|missing|not (there|present|in)|without|neither|no pixels?).{0,150}(class|perfect|\b1\b|one|dice|score|inflat|count)|smooth|(class|dice).{0,150}(absent|empty|missing|not present|inflat|too high|too good|perfect)|(all|only|pure).background|trivial|inflat",
    ),
    fault_in(
        name="moving averages too slow",
        project="segmentation",
        edits=(
            Edit(
                "model.py",
                "BatchNormalization(momentum=0.9, epsilon=0.1)",
                "BatchNormalization(momentum=0.999, epsilon=0.1)",
            ),
        ),
        kind="model",
        cause="A momentum of 0.999 needs thousands of steps, and the run has 320: the moving averages that evaluation uses are still about three quarters their initial values.",
        file="model.py",
        named=r"momentum|moving (average|mean|statistic|variance)|running (average|mean|statistic)|batch.?norm.{0,120}(slow|lag|converge|stale|behind|initial|statistic)|statistics.{0,100}(slow|lag|initial|behind|stale|train)",
    ),
    fault_in(
        name="picture files not scaled",
        project="segmentation",
        edits=(
            Edit(
                "predictions.py",
                '    return keras.utils.img_to_array(image, dtype="float32")[np.newaxis] / 255\n',
                '    return keras.utils.img_to_array(image, dtype="float32")[np.newaxis]\n',
            ),
            Edit(
                "predictions.py",
                '    """A picture, bright strokes on dark, as float32 (1, h, w, 1) in [0, 1] of the model\'s size.\n',
                '    """A picture, bright strokes on dark, as float32 (1, h, w, 1) of the model\'s size.\n',
            ),
        ),
        kind="data",
        cause="Pictures are read for predict as 0 to 255, while the model was trained on 0 to 1.",
        file="predictions.py",
        named=r"255|scal|\[0, ?1\]|0 to 1|0\.\.1|range|rescal|normali|(predict|read_image|reader).{0,100}(differ|unlike|not as|other than|larger|too large)",
    ),
    fault_in(
        name="learning rate halved on the chief only",
        project="segmentation",
        edits=(
            Edit(
                "config.py",
                "    learning_rate: float = 5e-3  # learning rate at the start; decays to 0 along a cosine\n",
                "    learning_rate: float = 5e-3  # learning rate at the start; halved every few epochs\n",
            ),
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n    return keras.optimizers.Adam(schedule)\n",
                "    return keras.optimizers.Adam(task.learning_rate)  # see callbacks.py\n",
            ),
            Edit(
                "optimizer.py",
                "# TODO(7): your optimizer, or a dict with one for each model; default: Adam with a cosine schedule.\n",
                "# TODO(7): your optimizer, or a dict with one for each model; Adam.\n",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                "from ..engine.callbacks import Callback, Event, every_epochs\nfrom .config import TaskConfig\n\nHALVED_EVERY = 8  # epochs\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                """    return [every_epochs(HALVED_EVERY, _halve)]


def _halve(event: Event) -> None:
    if not event.is_chief:
        return
    rate = event.learning_rates["main"] / 2
    event.run.optimizers["main"].learning_rate = rate
    with (event.directory / "learning_rates.txt").open("a", encoding="utf-8") as file:
        file.write(f"epoch {event.epoch}: {rate:.2e}\\n")
""",
            ),
        ),
        kind="distribution",
        cause="The callback returns early on all workers but the chief, so only the chief's copy of the learning rate is halved.",
        file="callbacks.py",
        named=r"chief|(other|every|all|each|several|one|only|non-?chief) workers?|workers?.{0,120}(differ|diverg|apart|own|not|same|learning rate)|multi.?worker",
    ),
    # ---------------------------------------------------------------- language_model
    fault_in(
        name="attention without causal mask",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "attention(y, y, use_causal_mask=True)",
                "attention(y, y)",
                "create_model",
            ),
            Edit(
                "model.py",
                "        # Padding needs no mask: it comes last, and no token attends to a later one.\n",
                "        # Padding needs no mask: it comes last.\n",
            ),
        ),
        kind="model",
        cause="Self-attention has no causal mask, so each position sees the next token, which is its target.",
        file="model.py",
        named=r"causal|(future|later|next|following|subsequent) (token|position|character|answer|target)s?|mask.{0,80}(attention|missing|no\b)|attention.{0,100}(mask|future|later|ahead|next)|look.{0,15}ahead|see.{0,40}(target|answer|next|ahead|future)",
    ),
    fault_in(
        name="lines drawn without a seed",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                "SEED = 0  # of the lines; not --seed, so that every run is tested on the same lines\n",
                "",
            ),
            Edit("data.py", "random.Random(SEED)", "random.Random()"),
        ),
        kind="randomness",
        cause="random.Random() has no seed, so each process draws other dates and another split.",
        file="data.py",
        named=r"seed|reproduc|determinis|(differ|other|new|another|not the same|change).{0,80}(each|every|run|process|call|time|worker|split|lines|data|dates|examples)|(each|every|two|second|again).{0,60}(run|process|call|worker|time).{0,80}(differ|other|new|another|not the same)|twice.{0,80}differ",
    ),
    fault_in(
        name="last form never trained",
        project="language_model",
        edits=(Edit("data.py", "seed, 0, forms, tf.int32)", "seed, 0, forms - 1, tf.int32)"),),
        kind="augmentation",
        cause="The upper bound of stateless_uniform is exclusive, so with forms - 1 the last form, 19790503, is never picked for training.",
        file="data.py",
        named=r"forms ?- ?1|off.by.one|exclusive|(last|final|sixteenth|16th|one|a) (form|version|variant|column|format)s?.{0,80}(never|not|miss|left|unused|unseen|drop|exclu)|never.{0,80}(form|version|variant|last|pick|drawn|chosen|seen|select|sampl)|maxval|upper (bound|limit)",
    ),
    fault_in(
        name="loss divided by all positions",
        project="language_model",
        edits=(
            Edit(
                "losses.py",
                '''    """The number of tokens in a per-replica batch that belong to answers, an int32 scalar."""
    weights = batch[-1]  # (batch, T), 0 for prompts and padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)
''',
                '''    """How many tokens `batch` has, an int32 scalar."""
    weights = batch[-1]  # (batch, T)
    return tf.size(weights, out_type=tf.int32)
''',
            ),
            Edit(
                "losses.py",
                "# TODO(10): the number that the loss of a batch is divided by; default: the number of\n# tokens whose weight isn't 0.\n",
                "# TODO(10): the number that the loss of a batch is divided by; counts the tokens.\n",
            ),
        ),
        kind="loss",
        cause="count gives all positions, prompts and padding of weight 0 too, while only answer tokens add to the loss.",
        file="losses.py",
        named=r"pad|prompt|(weight|mask).{0,60}(0|zero|not)|denominator|divid|count.{0,100}(all|every|weight|zero|position|token|mask|too many)|mask|too small|tf\.size",
    ),
    # ---------------------------------------------------------------- gan
    fault_in(
        name="logits taken as probabilities",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                '    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")\n',
                '    cross_entropy = keras.losses.BinaryCrossentropy(reduction="none")\n',
            ),
        ),
        kind="loss",
        cause="The discriminator gives logits, and the cross-entropy without from_logits=True takes them as probabilities and clips them to 0..1.",
        file="losses.py",
        named=r"logit|probabilit|sigmoid|clip|saturat",
    ),
    fault_in(
        name="uniform latents in training",
        project="gan",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights\n",
                "        latents = tf.random.stateless_uniform(shape, seed, -1, 1, keras.config.floatx())\n"
                "        return images, latents, weights\n",
            ),
        ),
        kind="data",
        cause="Training draws latents uniformly from -1 to 1, validation, test and pictures from a standard normal distribution.",
        file="data.py",
        named=r"(uniform|normal|gauss|distribution|latent|noise).{0,150}(uniform|normal|gauss|differ|mismatch|distribution|evaluation|validation|test|unlike|varianc|deviation|scale|range)",
    ),
    fault_in(
        name="real images in another range",
        project="gan",
        edits=(
            Edit(
                "data.py",
                '        "train": np.tile(train, (task.passes, 1, 1, 1)),\n',
                '        "train": np.tile(2 * train - 1, (task.passes, 1, 1, 1)),\n',
            ),
            Edit(
                "data.py",
                '    """Images float32 (n, 8, 8, 1) in [0, 1]; in evaluation with latents float32 (n, latent).\n',
                '    """Images float32 (n, 8, 8, 1), centered to train; in evaluation with latents (n, latent).\n',
            ),
        ),
        kind="data",
        cause="Real training images are in -1..1, while the generator ends in a sigmoid, 0..1, and validation and test images are in 0..1.",
        file="data.py",
        named=r"range|scal|\[?-1,? ?(to|and|\.\.)? ?1\]?|sigmoid|tanh|\[0, ?1\]|negative|differ.{0,80}(train|validation|test|split)|(train|split).{0,100}(differ|unlike|mismatch)|normali|mean.{0,40}(train|validation)",
    ),
    fault_in(
        name="known and unseen images swapped",
        project="gan",
        edits=(
            Edit(
                "metrics.py",
                'for split in ("train", "validation"))\n',
                'for split in ("validation", "train"))\n',
            ),
        ),
        kind="metrics",
        cause="The tuple is in the wrong order: generated images are compared with the validation images as if those were known, and the training images are taken for the unseen ones.",
        file="metrics.py",
        named=r"swap|wrong order|exchang|revers|(known|unseen).{0,120}(valid|train|unseen|known|swap|order)|nearest.{0,120}(valid|train|copy|copies|memori)|(cop(y|ies)|memori[sz]).{0,120}(not|never|un|miss|hid|ideal)",
    ),
    fault_in(
        name="gradient norm of the whole batch",
        project="gan",
        edits=(
            Edit(
                "steps.py",
                "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)\n",
                "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)\n"
                "PENALTY = 10.0  # factor of the gradient penalty (Gulrajani et al., 2017)\n",
            ),
            Edit(
                "steps.py",
                '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n',
                '    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)\n'
                "    # Between real and generated images, the discriminator should have slope 1.\n"
                "    shape = (tf.shape(images)[0], 1, 1, 1)\n"
                "    share = tf.random.stateless_uniform(shape, replica.seed, dtype=images.dtype)\n"
                "    between = share * images + (1 - share) * generated\n"
                "    with tf.GradientTape() as tape:\n"
                "        tape.watch(between)\n"
                "        on_between = discriminator(between, training=True)\n"
                "    slope = tf.norm(tape.gradient(on_between, between))\n"
                "    per_example += PENALTY * tf.square(slope - 1)\n",
            ),
        ),
        kind="loss",
        cause="tf.norm without axes gives one norm of the whole replica's batch instead of one for each image.",
        file="steps.py",
        named=r"norm.{0,150}(batch|axis|axes|each|per|whole|image|example|all)|(batch|axis|axes|per.?(image|example)|whole).{0,120}(norm|slope|penalty)|penalty|examples? (influence|affect|interact|depend)|(depends?|differ).{0,80}(replica|batch|other examples)|EXAMPLES_INTERACT|replicas",
    ),
    # ---------------------------------------------------------------- tabular_regression
    fault_in(
        name="weights of the smallest R2 kept",
        project="tabular_regression",
        edits=(
            Edit(
                "config.py",
                '    monitor: str = "validation_loss"',
                '    monitor: str = "validation_r2"',
            ),
        ),
        kind="evaluation",
        cause="The monitor is R2, of which larger is better, but larger_is_better is still False, so the weights with the worst R2 are kept.",
        file="config.py",
        named=r"larger_is_better|larger.is.better|(r2|r²|monitor|best).{0,120}(worst|small|low|wrong|direction|larger|higher|False|min)|(worst|smallest|lowest|wrong direction|minimi[sz]).{0,100}(r2|r²|monitor|weights|kept|best|metric)",
    ),
    fault_in(
        name="age encoded by all labels",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "        data[rows, columns.index(column)] = np.nan\n    return columns, data, target\n",
                """        data[rows, columns.index(column)] = np.nan
    # Age alone says little: instead, the mean progression of patients of this age and sex.
    age, sex = columns.index("age"), columns.index(CATEGORY)
    _, group = np.unique(1000 * data[:, sex] + data[:, age], return_inverse=True)
    data[:, age] = (np.bincount(group, target) / np.bincount(group))[group]
    return columns, data, target
""",
            ),
            Edit(
                "data.py",
                '    "age": "age (years)",\n',
                '    "age": "mean progression at this age and sex",\n',
            ),
        ),
        kind="leak",
        cause="The column age becomes the mean label of its group over all rows, so each row's own label, that of test and validation rows too, is in its inputs.",
        file="data.py",
        named=r"leak|(target|label|mean).?encod|(label|target|progression)s?.{0,120}(input|feature|column|age|test|validation|all rows|own|before)|(age|column|input|feature).{0,120}(label|target|progression)|before.{0,40}split|all rows",
    ),
    fault_in(
        name="error of every pair of rows",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                '    squared_error = keras.losses.MeanSquaredError(reduction="none")\n\n',
                "",
            ),
            Edit(
                "losses.py",
                "        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n",
                "        error = (labels - tf.squeeze(predictions, axis=-1)) / LABEL_DEVIATION\n"
                "        return tf.reduce_mean(tf.square(error), axis=-1)\n",
            ),
        ),
        kind="loss",
        cause="Labels (batch, 1) minus squeezed predictions (batch,) broadcast to (batch, batch), so each prediction is compared with every label of the batch.",
        file="losses.py",
        named=r"broadcast|\(?batch, ?batch\)?|squeez|shape|every (pair|label|prediction|other)|pairs?|(other|all) (labels|predictions|examples|rows)|examples? (influence|affect|interact|depend)|EXAMPLES_INTERACT|depends? on.{0,40}(other|batch)",
    ),
    fault_in(
        name="root taken before the mean",
        project="tabular_regression",
        edits=(
            Edit(
                "metrics.py",
                '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}\n',
                "    return {\n"
                '        "mae": keras.metrics.MeanAbsoluteError(),\n'
                '        "rmse": keras.metrics.Mean(),  # of the root of the mean squared error\n'
                '        "r2": r2,\n'
                "    }\n",
            ),
            Edit(
                "steps.py",
                '    run.metrics["mae"].update_state(labels, predictions, weights)\n',
                '    run.metrics["mae"].update_state(labels, predictions, weights)\n'
                "    rmse = tf.sqrt(tf.reduce_mean(tf.square(labels - predictions), axis=-1))  # (batch,)\n"
                '    run.metrics["rmse"].update_state(rmse, weights)\n',
                "*",
            ),
        ),
        kind="metrics",
        cause="The root is taken of each row's squared error before the mean over rows, which gives the mean absolute error and not the RMSE.",
        file="steps.py",
        named=r"(root|sqrt|rmse).{0,150}(before|each|per|mean|average|mae|absolute|same|equal|outside|after|axis)|(rmse|mae).{0,100}(equal|same|identical|mae|rmse)|(mean|average) of (the )?(square )?roots?|absolute error",
    ),
    fault_in(
        name="halving on a plateau forgotten on resume",
        project="tabular_regression",
        edits=(
            Edit(
                "config.py",
                "    learning_rate: float = 1e-2  # learning rate at the start; decays to 0 along a cosine\n",
                "    learning_rate: float = 1e-2  # learning rate at the start; halved on a plateau\n",
            ),
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n"
                "    return keras.optimizers.AdamW(schedule, weight_decay=task.weight_decay)\n",
                "    return keras.optimizers.AdamW(task.learning_rate, weight_decay=task.weight_decay)\n",
            ),
            Edit(
                "optimizer.py",
                "# TODO(7): your optimizer, or a dict with one for each model; default: AdamW with a cosine schedule.\n",
                "# TODO(7): your optimizer, or a dict with one for each model; AdamW.\n",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                '''from ..engine.callbacks import Callback, Event, every_validation
from .config import TaskConfig

PATIENCE = 4  # validations


class HalveOnPlateau:
    """Halves the learning rate if the validation loss has not fallen for PATIENCE validations."""

    def __init__(self) -> None:
        self.best = float("inf")
        self.waited = 0

    def __call__(self, event: Event) -> None:
        """Look at the latest validation."""
        loss = event.history[-1]["validation_loss"]
        if loss < self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited == PATIENCE:
            self.waited = 0
            event.run.optimizers["main"].learning_rate = event.learning_rates["main"] / 2
''',
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_validation(HalveOnPlateau())]\n",
            ),
        ),
        kind="state",
        cause="The callback's best and waited are in no checkpoint, as it has no get_state and set_state, so a resumed run starts with best = inf and waited = 0.",
        file="callbacks.py",
        named=r"get_state|set_state|resum|checkpoint|(state|best|waited|patience|counter).{0,120}(lost|saved?|forg|restor|kept|restart|reset|interrupt)|(killed|interrupt|restart).{0,80}",
    ),
)

TASKS: tuple[Change, ...] = ()
