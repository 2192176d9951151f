"""Faults of an examiner in starters and in tasks of owners, made while they are extended."""

from __future__ import annotations

from .edits import SAME_AS_VALIDATION, Change, Edit, Fault
from .unusual import fault_in

FAULTS: tuple[Fault, ...] = (
    # ------------------------------------------------------------------ plain
    fault_in(
        name="pictures that predict reads are not standardized",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST\n",
                "VALIDATION_IMAGES = 5_000  # of the 60,000 training images of Fashion-MNIST\n"
                'MEAN = {"digits": 0.305, "fashion_mnist": 0.286}  # of the pixels for training\n'
                'DEVIATION = {"digits": 0.376, "fashion_mnist": 0.353}\n',
            ),
            Edit(
                "data.py",
                "images float32 (n, h, w, 1) in [0, 1], labels",
                "images float32 (n, h, w, 1), standardized, labels",
            ),
            Edit(
                "data.py",
                '    return {\n        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))\n',
                "    mean, deviation = MEAN[task.dataset], DEVIATION[task.dataset]\n"
                "    return {\n"
                "        split: (\n"
                '            ((images - mean) / deviation).astype("float32")[..., np.newaxis],\n'
                '            labels.astype("int64"),\n'
                "        )\n",
                "create_datasets",
            ),
        ),
        kind="prediction",
        cause="The datasets are standardized with mean and deviation, but read_image, which predict uses, still gives pixels "
        "in [0, 1], so predictions of pictures are made from inputs unlike those of training.",
        file="predictions.py",
        named=r"read_image|READERS|predict\w*.*(standardi|normali|scal|mean|preprocess|range|differ)|(standardi|normali|scal|preprocess).*predict|train.?serv\w* skew|skew",
    ),
    fault_in(
        name="confidence penalty is a mean over each replica",
        project="image_classification",
        edits=(
            Edit(
                "steps.py",
                "Batch = tuple[",
                "PENALTY = 0.1  # of confident predictions (Pereyra et al., 2017)\nBatch = tuple[",
            ),
            Edit(
                "steps.py",
                '    return {"main": compute_loss(per_example, weights, run.model, replica)}',
                "    probabilities = tf.nn.softmax(predictions)\n"
                "    entropy = -tf.reduce_sum(probabilities * tf.nn.log_softmax(predictions), axis=1)  # (batch,)\n"
                "    loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss - PENALTY * tf.reduce_mean(entropy)}',
                "train_step",
            ),
        ),
        kind="distribution",
        cause="The penalty is the mean over the rows of a replica (or micro-batch) and the engine sums the losses over replicas "
        "and micro-batches, so it weighs N times as much on N of them; it also counts padding.",
        file="steps.py",
        named=r"reduce_mean|mean over|replica|entropy|penalty|global_count|micro.?batch|accumulat|num_replicas|padding|weights? (of|is|are) (0|ignored)|summed",
    ),
    fault_in(
        name="focal loss takes logits for probabilities",
        project="finetuning",
        edits=(
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\nfrom .model import CLASSES\n",
            ),
            Edit("losses.py", "cross-entropy of logits", "the focal loss"),
            Edit(
                "losses.py",
                '    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}\n',
                '    focal = keras.losses.CategoricalFocalCrossentropy(gamma=2.0, reduction="none")\n\n'
                "    def focal_loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:\n"
                '        """Hard examples count more (Lin et al., 2017), (batch,)."""\n'
                "        return focal(tf.one_hot(labels, CLASSES), predictions)\n\n"
                '    return {"main": focal_loss}\n',
            ),
        ),
        kind="loss",
        cause="CategoricalFocalCrossentropy has from_logits=False by default and the model gives logits, so it takes them for "
        "probabilities: the loss and its gradients are wrong.",
        file="losses.py",
        named=r"from_logits|logit|probabilit|softmax",
    ),
    fault_in(
        name="images and labels are drawn with different permutations",
        project="distillation",
        edits=(
            Edit(
                "config.py",
                "    shift: float = 0.5",
                "    fraction: float = 0.5  # of the training data that the student sees\n    shift: float = 0.5",
            ),
            Edit(
                "data.py",
                "    return {\n        split: (images.astype(",
                '    images, labels = splits["train"]\n'
                "    random = np.random.default_rng(0)\n"
                "    rows = round(task.fraction * len(images))\n"
                '    splits["train"] = random.permutation(images)[:rows], random.permutation(labels)[:rows]\n'
                "    return {\n        split: (images.astype(",
                "create_datasets",
            ),
        ),
        kind="labels",
        cause="Training images and labels are permuted by two different draws, so an image gets the label of another one.",
        file="data.py",
        named=r"permut|shuffl|label.*(match|belong|pair|align|random|another|other|wrong|mix)|pair|align|mismatch|same order|independent|unrelated|correspond",
    ),
    fault_in(
        name="rows are oversampled before the split",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "    category = columns.index(CATEGORY)\n",
                "    # Severe cases are rare: each comes three times.\n"
                "    severe = np.flatnonzero(target > SEVERE)\n"
                "    rows = np.concatenate([np.arange(len(data)), np.repeat(severe, 2)])\n"
                "    data, target = data[rows], target[rows]\n"
                "    category = columns.index(CATEGORY)\n",
                "create_datasets",
            ),
            Edit(
                "data.py",
                "FOLDS = 5\n",
                "FOLDS = 5\nSEVERE = 200  # progression from which on a patient is a severe case\n",
            ),
        ),
        kind="leak",
        cause="Rows are repeated before they are split, so copies of the same patient are in training, validation and test data.",
        file="data.py",
        named=r"leak|overlap|duplicat|copies|copy|same (row|patient|example)|oversampl|before (the|they|it|split)|also in|in (both|several)|repeat|share|appear",
    ),
    fault_in(
        name="R2 is monitored as if smaller were better",
        project="tabular_regression",
        edits=(
            Edit("config.py", 'monitor: str = "validation_loss"', 'monitor: str = "validation_r2"'),
        ),
        kind="configuration",
        cause="--monitor is validation_r2, of which larger values are better, and larger_is_better is still False: the worst weights are kept as the best and tested.",
        file="config.py",
        named=r"larger_is_better|larger|monitor|worst|direction|smaller|best weights|r2",
    ),
    fault_in(
        name="Huber loss broadcasts labels against predictions",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "the squared error of standardized labels",
                "the Huber loss of standardized labels",
            ),
            Edit(
                "losses.py",
                '    squared_error = keras.losses.MeanSquaredError(reduction="none")\n\n',
                "",
            ),
            Edit(
                "losses.py",
                "        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n",
                "        error = tf.abs(labels[:, 0] - predictions) / LABEL_DEVIATION\n"
                "        huber = tf.where(error < 1, tf.square(error) / 2, error - 0.5)\n"
                "        return tf.reduce_mean(huber, axis=-1)\n",
            ),
        ),
        kind="loss",
        cause="labels[:, 0] is (batch,) and predictions (batch, 1), so their difference is (batch, batch): each prediction is "
        "compared with the labels of all examples and learns their middle.",
        file="losses.py",
        named=r"broadcast|\(batch, ?batch\)|shape|labels\[:, ?0\]|every label|all (the )?labels|other examples|each other|pairwise|axis|interact|depends on the other",
    ),
    fault_in(
        name="convolution over the line sees the next token",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "    for _ in range(task.layers):\n",
                "    # What is near, such as the digits of a number, before attention.\n"
                '    x = x + layers.Conv1D(task.width, 3, padding="same", activation="gelu")(x)\n'
                "    for _ in range(task.layers):\n",
            ),
        ),
        kind="model",
        cause="Conv1D with padding='same' looks at the next token, which is the target, so training and validation are easy "
        "and the model can't write answers.",
        file="model.py",
        named=r"causal|future|next token|later token|look.?ahead|leak|Conv1D|padding|convolution|see.*(next|target|later)|sees|after it|teacher",
    ),
    fault_in(
        name="fraction of the run is taken for a number of warmup steps",
        project="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "# TODO(7): your optimizer, or a dict with one for each model;\n# default: Adam, its learning rate warmed up, then decayed along a cosine.\n",
                "class InverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):\n"
                '    """Rises linearly, then falls with the square root of the step (Vaswani et al., 2017)."""\n\n'
                "    def __init__(self, learning_rate: float, warmup: float) -> None:\n"
                "        self.learning_rate, self.warmup = learning_rate, warmup\n\n"
                "    def __call__(self, step: tf.Tensor) -> tf.Tensor:\n"
                '        """The learning rate of a step; `learning_rate` where the warmup ends."""\n'
                "        step = tf.cast(step, tf.float32) + 1.0\n"
                "        return self.learning_rate * tf.minimum(step / self.warmup, tf.sqrt(self.warmup / step))\n\n"
                "    def get_config(self) -> dict[str, float]:\n"
                '        """The arguments."""\n'
                '        return {"learning_rate": self.learning_rate, "warmup": self.warmup}\n\n\n'
                "# TODO(7): your optimizer, or a dict with one for each model;\n# default: Adam, its learning rate warmed up, then decayed.\n",
            ),
            Edit(
                "optimizer.py",
                "    warmup = int(task.warmup * steps)\n"
                "    schedule = keras.optimizers.schedules.CosineDecay(\n"
                "        initial_learning_rate=0.0 if warmup else task.learning_rate,\n"
                "        decay_steps=steps - warmup,\n"
                "        warmup_target=task.learning_rate if warmup else None,\n"
                "        warmup_steps=warmup,\n"
                "    )\n"
                "    return keras.optimizers.Adam(schedule)\n",
                "    return keras.optimizers.Adam(InverseSquareRoot(task.learning_rate, task.warmup))\n",
            ),
        ),
        kind="schedule",
        cause="The schedule expects warmup steps and gets the fraction 0.05, so there is no warmup and the learning rate is "
        "sqrt(0.05 / step) of what was asked for: far too small from the first step.",
        file="optimizer.py",
        named=r"warm.?up|fraction|learning.rate.*(small|low|tiny|never|reach|peak|little)|too small|schedule|steps",
    ),
    fault_in(
        name="images and labels are cropped at different places",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                "FAINT, DARK = 0.375, 0.5",
                "MOVE = 4  # largest random shift in training, in pixels\nFAINT, DARK = 0.375, 0.5",
            ),
            Edit(
                "data.py",
                '        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")\n        return images, tf.cast(labels[..., 0], tf.int32), weights\n',
                '        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")\n'
                "        # Then all of the batch move by some pixels.\n"
                "        image_seed, label_seed = tf.unstack(tf.random.split(seed))\n"
                "        images, labels = _move(images, image_seed), _move(labels, label_seed)\n"
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
            ),
            Edit(
                "data.py",
                "def _compose(\n",
                "def _move(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:\n"
                '    """A random crop of (batch, h, w, 1) with a margin of zeros."""\n'
                "    margin = [[0, 0], [MOVE, MOVE], [MOVE, MOVE], [0, 0]]\n"
                "    return tf.image.stateless_random_crop(tf.pad(images, margin), images.shape, seed)\n\n\n"
                "def _compose(\n",
            ),
        ),
        kind="augmentation",
        cause="Images and their label maps are cropped with different seeds, so they are shifted against each other.",
        file="data.py",
        named=r"seed|misalign|align|different (crop|shift|place|offset|random)|shift|crop|same (crop|shift|seed|offset)|label.*(move|match|differ|pixel)|independent|apart",
    ),
    fault_in(
        name="early stopping waits for a smaller IoU",
        project="segmentation",
        edits=(
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "import keras\n\nfrom ..engine.callbacks import Callback\nfrom ..engine.keras_callbacks import keras_callback\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                '    stopping = keras.callbacks.EarlyStopping(monitor="val_mean_iou", mode="min", patience=8)\n'
                "    return [keras_callback(stopping)]\n",
            ),
        ),
        kind="callbacks",
        cause="EarlyStopping has mode='min' for the IoU, of which larger is better, so it stops the run because the model improves.",
        file="callbacks.py",
        named=r"mode|min\b|max\b|EarlyStopping|early stop|stops|direction|larger|improv|too early|IoU",
    ),
    fault_in(
        name="third head gives the output of the second",
        project="two_heads",
        edits=(
            Edit(
                "data.py",
                '        "even": np.where(rows % 5 == 0, 1 - digits % 2, -1),\n',
                '        "even": np.where(rows % 5 == 0, 1 - digits % 2, -1),\n'
                '        "large": np.where(rows % 4 == 1, digits >= 5, -1).astype("int64"),\n',
            ),
            Edit(
                "data.py",
                "most digits, and of a fifth whether they are even.",
                "digit, whether it is even, whether it is 5 or more.",
            ),
            Edit("losses.py", 'HEADS = ("digit", "even")', 'HEADS = ("digit", "even", "large")'),
            Edit(
                "model.py",
                '    return keras.Model(images, {"digit": logits, "even": even})\n',
                '    large = layers.Dense(2, dtype=keras.config.floatx(), name="large")(x)\n'
                '    return keras.Model(images, {"digit": logits, "even": even, "large": even})\n',
            ),
        ),
        kind="model",
        cause="The output 'large' is the tensor of the head 'even': one layer is trained for two different labels, and the layer 'large' isn't part of the model.",
        file="model.py",
        named=r"same (output|tensor|layer|logits|head)|\blarge\b|even|unused|not used|never used|copy|shared?|two (heads|outputs|labels)|identical|not part of|isn't part",
    ),
    fault_in(
        name="F1 is averaged over batches",
        project="two_heads",
        edits=(
            Edit(
                "metrics.py",
                '    return {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}\n',
                '    accuracies = {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}\n'
                '    return accuracies | {"even_f1": keras.metrics.Mean()}\n\n\n'
                "def f1(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:\n"
                '    """Of two classes, 2 TP / (2 TP + FP + FN), a scalar."""\n'
                "    is_true = tf.cast(labels == 1, weights.dtype)\n"
                "    is_found = tf.cast(tf.argmax(logits, axis=1) == 1, weights.dtype)\n"
                "    both = tf.reduce_sum(weights * is_true * is_found)\n"
                "    either = tf.reduce_sum(weights * (is_true + is_found))  # 2 TP + FP + FN\n"
                "    return tf.math.divide_no_nan(2 * both, either)\n",
            ),
            Edit("metrics.py", "import keras\n", "import keras\nimport tensorflow as tf\n"),
            Edit(
                "steps.py",
                "from .losses import HEADS, weights_of_heads\n",
                "from .losses import HEADS, weights_of_heads\nfrom .metrics import f1\n",
            ),
            Edit(
                "steps.py",
                "    regularization =",
                '    run.metrics["even_f1"].update_state(f1(labels["even"], outputs["even"], weights["even"]))\n    regularization =',
                "*",
            ),
        ),
        kind="metrics",
        cause="even_f1 is the mean of the F1 of each replica's batches, each with the same weight, which isn't the F1 of all "
        "examples and changes with batch size, replicas and the short last batch.",
        file="metrics.py",
        named=r"f1|mean of|average|per.batch|each batch|batch(es)?|replica|not.*additive|global counts|Mean",
    ),
    fault_in(
        name="hinge loss has the wrong sign for generated images",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                "cross-entropy of the discriminator's logits",
                "hinge losses of the discriminator's logits",
            ),
            Edit(
                "losses.py",
                '    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="none")\n\n',
                "",
            ),
            Edit(
                "losses.py",
                "        loss_on_real = cross_entropy(tf.ones_like(on_real), on_real)  # (batch,)\n"
                "        loss_on_generated = cross_entropy(tf.zeros_like(on_generated), on_generated)  # (batch,)\n"
                "        return (loss_on_real + loss_on_generated) / 2\n",
                "        loss_on_real = tf.nn.relu(1.0 - on_real[:, 0])  # (batch,)\n"
                "        loss_on_generated = tf.nn.relu(1.0 - on_generated[:, 0])  # (batch,)\n"
                "        return (loss_on_real + loss_on_generated) / 2\n",
            ),
            Edit(
                "losses.py",
                '        """Low if the logits are high on generated images.\n\n'
                "        Not the discriminator's loss with the opposite sign, which has no gradient where the\n"
                "        discriminator is sure (Goodfellow et al., 2014).\n"
                '        """\n'
                "        return cross_entropy(tf.ones_like(on_generated), on_generated)  # (batch,)\n",
                '        """Low if the logits are high on generated images."""\n'
                "        return -on_generated[:, 0]  # (batch,)\n",
            ),
        ),
        kind="loss",
        cause="The hinge loss of generated images is relu(1 - logit) and must be relu(1 + logit): the discriminator learns high "
        "logits for both and gives the generator nothing to learn from.",
        file="losses.py",
        named=r"sign|1(\.0)? ?\+|1(\.0)? ?- ?on_generated|hinge|both|on_generated|generated images|tell|discriminat\w*.*(not|never|no)",
    ),
    fault_in(
        name="cross-entropy of pixels is averaged beside a summed divergence",
        project="vae",
        edits=(
            Edit("losses.py", "cross-entropy of logits", "cross-entropy of pixels"),
            Edit(
                "losses.py",
                "    def squares(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:\n"
                '        """The squared error of each image, (batch,)."""\n'
                "        return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])\n\n"
                '    return {"main": squares}\n',
                '    cross_entropy = keras.losses.BinaryCrossentropy(reduction="none")\n\n'
                "    def bernoulli(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:\n"
                '        """The negative log-likelihood of each image, (batch,)."""\n'
                "        return tf.reduce_mean(cross_entropy(images, decoded), axis=[1, 2])\n\n"
                '    return {"main": bernoulli}\n',
            ),
        ),
        kind="loss",
        cause="The cross-entropy is the mean over the 64 pixels while the KL divergence is a sum, so that it weighs 64 times as "
        "much as in the evidence lower bound: the code collapses and all images are decoded alike.",
        file="losses.py",
        named=r"reduce_mean|mean over|averag|sum over|reduce_sum|pixels|collaps|kl|divergence|scale|weigh|ELBO|lower bound|same image|ignores",
    ),
    fault_in(
        name="brightness is drawn once by numpy",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        brightness = np.random.uniform(0.5, 1.5, size=(images.shape[0], 1, 1, 1))\n"
                '        images = tf.clip_by_value(images * brightness.astype("float32"), 0, 1)\n'
                "        return images, labels, weights\n",
                "create_augment",
            ),
            Edit(
                "data.py",
                "shifts each image a little.",
                "shifts each image a little and\n# makes it brighter or darker.",
            ),
        ),
        kind="randomness",
        cause="np.random is called once, when tf.data traces the function, so the brightness of a row is the same constant in every step, and doesn't follow the given seed.",
        file="data.py",
        named=r"np\.random|numpy|trac(e|ing)|constant|once|same (in|for) every|every (step|batch)|stateless|seed|reproduc|brightness",
    ),
    # ----------------------------------------------------------------- subtle
    fault_in(
        name="view for the test is chosen by the label",
        project="image_classification",
        edits=(
            Edit(
                "steps.py",
                "one test step; default: the same as in validation.",
                "one test step; default: of three views of an image, the best.",
            ),
            Edit(
                "steps.py",
                SAME_AS_VALIDATION,
                "    images, labels, weights = batch\n"
                "    # Test-time augmentation: an image as it is, and moved to the left and to the right.\n"
                "    views = [images, tf.roll(images, -1, axis=2), tf.roll(images, 1, axis=2)]\n"
                "    outputs = tf.stack([run.model(view, training=False) for view in views], axis=1)\n"
                '    losses = tf.stack([run.losses["main"](labels, outputs[:, v]) for v in range(len(views))], axis=1)\n'
                "    best = tf.argmin(losses, axis=1)  # (batch,), the view that fits best\n"
                "    predictions = tf.gather(outputs, best, axis=1, batch_dims=1)  # (batch, classes)\n"
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n'
                '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n'
                '    return {"main": compute_loss(per_example, weights, run.model, replica)}\n',
                "test_step",
            ),
        ),
        kind="evaluation",
        cause="The test step keeps, for each image, the view with the smallest loss, which needs the label: test accuracy is too high and no prediction could have it.",
        file="steps.py",
        named=r"label|oracle|argmin|smallest loss|best view|leak|too (high|good)|optimistic|cheat|select|chos|view|test.time|inflat",
    ),
    fault_in(
        name="scaled gradients change nothing under Adam",
        project="finetuning",
        edits=(
            Edit(
                "optimizer.py",
                "    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)\n"
                '    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)\n',
                "    return keras.optimizers.Adam(schedule)\n",
            ),
            Edit(
                "optimizer.py",
                "default: no change.",
                "default: the backbone learns at a tenth of the learning rate.",
            ),
            Edit(
                "optimizer.py",
                "    return gradients\n",
                '    scales = [1.0 if v.path.startswith("logits/") else BACKBONE_RATE for v in variables]\n'
                "    return [scale * gradient for scale, gradient in zip(scales, gradients, strict=True)]\n",
                "process_gradients",
            ),
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nBACKBONE_RATE = 0.1  # learning rate of the backbone, compared to that of the last layer\n",
            ),
        ),
        kind="optimizer",
        cause="Gradients of the backbone are multiplied by 0.1 to make it learn at a tenth of the rate, but Adam divides by the "
        "gradient's own size, so the pretrained weights learn at the full rate.",
        file="optimizer.py",
        named=r"Adam|scal|invarian|cancel|no effect|normali|divid|full (learning )?rate|0\.1|tenth|BACKBONE_RATE|learning rate",
    ),
    fault_in(
        name="hard examples are chosen within a replica",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "Batch = tuple[",
                "HARDEST = 0.5  # fraction of a batch that counts, that with the largest losses\nBatch = tuple[",
            ),
            Edit(
                "steps.py",
                '    return {"main": compute_loss(per_example, weights, run.model, replica)}',
                "    # Online hard example mining (Shrivastava et al., 2016).\n"
                "    rows = round(HARDEST * per_example.shape[0])\n"
                "    smallest = tf.math.top_k(per_example, rows).values[-1]\n"
                "    kept = tf.stop_gradient(tf.cast(per_example >= smallest, weights.dtype)) / HARDEST\n"
                '    return {"main": compute_loss(kept * per_example, weights, run.model, replica)}',
                "train_step",
            ),
        ),
        kind="distribution",
        cause="Which examples count depends on the others of the replica's part of the batch (or of the micro-batch), and "
        "EXAMPLES_INTERACT is False: N replicas or --accumulate train otherwise than one; padding takes part too.",
        file="steps.py",
        named=r"EXAMPLES_INTERACT|interact|replica|local|micro.?batch|accumulat|all_gather|global batch|depends? on (the )?other|top_k|padding",
    ),
    fault_in(
        name="plateau callback forgets its state when a run is resumed",
        project="contrastive",
        edits=(
            Edit(
                "optimizer.py",
                "Adam with a cosine schedule.",
                "Adam, whose learning\n# rate task/callbacks.py lowers.",
            ),
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n"
                "    return keras.optimizers.Adam(schedule)\n",
                "    return keras.optimizers.Adam(task.learning_rate)\n",
            ),
            Edit(
                "config.py",
                "learning rate at the start; decays to 0 along a cosine",
                "learning rate at the start; halved where the accuracy stays",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "import math\n\nfrom ..engine.callbacks import Callback, Event, every_validation\n",
            ),
            Edit(
                "callbacks.py",
                "# TODO(9):",
                "class Plateau:\n"
                '    """Halves the learning rate after `patience` validations without a better accuracy."""\n\n'
                "    def __init__(self, patience: int) -> None:\n"
                "        self.patience, self.best, self.waited = patience, -math.inf, 0\n\n"
                "    def __call__(self, event: Event) -> None:\n"
                '        """After a validation."""\n'
                '        accuracy = event.history[-1]["validation_accuracy"]\n'
                "        self.waited = 0 if accuracy > self.best else self.waited + 1\n"
                "        self.best = max(self.best, accuracy)\n"
                "        if self.waited >= self.patience:\n"
                '            optimizer = event.run.optimizers["main"]\n'
                '            optimizer.learning_rate = event.learning_rates["main"] / 2\n'
                "            self.waited = 0\n\n\n"
                "# TODO(9):",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_validation(Plateau(patience=3))]\n",
            ),
        ),
        kind="callbacks",
        cause="Plateau keeps the best accuracy and the count of validations in attributes and has no get_state and set_state, so a resumed run starts them anew and lowers the learning rate at other steps.",
        file="callbacks.py",
        named=r"get_state|set_state|resum|checkpoint|state",
    ),
    fault_in(
        name="inputs are smoothed with hours to come",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                "PAST, FUTURE = 24, 6  # hours\nSMOOTH = 5  # hours over which inputs are averaged\n",
            ),
            Edit(
                "data.py",
                "    windows = np.lib.stride_tricks.sliding_window_view(rows, PAST + FUTURE, axis=0)\n"
                "    return windows[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]\n",
                "    windows = np.lib.stride_tricks.sliding_window_view(rows, PAST + FUTURE, axis=0)\n"
                "    smooth = np.lib.stride_tricks.sliding_window_view(_smooth(rows), PAST + FUTURE, axis=0)\n"
                "    return smooth[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]\n\n\n"
                "def _smooth(rows: np.ndarray) -> np.ndarray:\n"
                '    """Means over SMOOTH hours of what is there: less noise, and fewer missing values."""\n'
                '    padded = np.pad(rows, ((SMOOTH // 2, SMOOTH // 2), (0, 0)), mode="edge")\n'
                "    hours = np.lib.stride_tricks.sliding_window_view(padded, SMOOTH, axis=0)\n"
                "    there = ~np.isnan(hours)\n"
                "    sums, counts = np.where(there, hours, 0).sum(axis=-1), there.sum(axis=-1)\n"
                "    return np.where(counts, sums / np.maximum(counts, 1), np.nan).astype(np.float32)\n",
            ),
        ),
        kind="leak",
        cause="The moving average is centered, so the last two hours of the inputs contain the first two hours that are to be forecast.",
        file="data.py",
        named=r"leak|future|cent(er|re)|smooth|look.?ahead|to come|moving average|rolling|later|overlap|SMOOTH|trailing|causal",
    ),
    fault_in(
        name="reshape mixes hours and columns",
        project="forecasting",
        edits=(
            Edit(
                "model.py",
                '    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))\n',
                "    # First the same filters over the hours of each column.\n"
                "    x = layers.Reshape((2 * len(COLUMNS), PAST))(x)  # (batch, columns, PAST)\n"
                '    x = layers.Dense(8, activation="relu")(x)  # (batch, columns, 8)\n'
                '    x = layers.Dense(task.units, activation="relu")(layers.Flatten()(x))\n',
            ),
        ),
        kind="model",
        cause="Reshape doesn't transpose: a row of (columns, PAST) holds 6 hours of all 4 columns and not 24 hours of one, so the filters go over mixed values; Permute was meant.",
        file="model.py",
        named=r"reshape|permute|transpos|mix|swap|interleav|axes|axis",
    ),
    fault_in(
        name="several samples of the code are one",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "WARM_UP = 200",
                "SAMPLES = 4  # codes of each image that the error is averaged over, for less noise\nWARM_UP = 200",
            ),
            Edit(
                "steps.py",
                "    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)\n"
                "    decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)\n"
                '    error = run.losses["main"](images, decoded)  # (batch,)\n',
                "    errors = []\n"
                "    for _ in range(SAMPLES):\n"
                "        noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)\n"
                "        decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)\n"
                '        errors.append(run.losses["main"](images, decoded))\n'
                "    error = tf.add_n(errors) / SAMPLES  # (batch,)\n",
                "train_step",
            ),
        ),
        kind="randomness",
        cause="Each of the four draws uses replica.seed, and a stateless draw with the same seed gives the same noise: the four samples are one, and their average has the noise of one.",
        file="steps.py",
        named=r"seed|same (noise|sample|draw|number)|identical|stateless|split|SAMPLES|independent",
    ),
    fault_in(
        name="perplexity is the mean of exponentials",
        project="language_model",
        edits=(
            Edit(
                "metrics.py",
                '        "exact_match": ExactMatch(),\n',
                '        "exact_match": ExactMatch(),\n        "perplexity": keras.metrics.Mean(),\n',
            ),
            Edit(
                "metrics.py",
                "the fractions of right tokens\n# and of right lines.",
                "the fractions of right tokens\n# and of right lines, and the perplexity of a token.",
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
        cause="Perplexity is the exponential of the mean loss of a token; the mean of the exponentials is another, larger number, which a few unlikely tokens decide.",
        file="steps.py",
        named=r"perplexity|\bexp\b|exponential|mean of|geometric|Jensen|average of",
    ),
)
TASKS: tuple[Change, ...] = ()
