"""Faults of an examiner in starters and in tasks of owners, two thirds of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

FAULTS: tuple[Fault, ...] = (
    # ---------------------------------------------------------------- image_classification
    fault_in(
        name="from_logits is forgotten",
        project="image_classification",
        edits=(
            Edit(
                "losses.py",
                'keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")',
                'keras.losses.SparseCategoricalCrossentropy(reduction="none")',
            ),
        ),
        kind="loss",
        cause="The model returns logits, but the cross-entropy takes them for probabilities: it clips "
        "them to [0, 1], so logits outside have no gradient and the loss means nothing.",
        file="losses.py",
        named=r"from_logits|logits|probabilit|softmax|clip|sum to (1|one)|negative",
    ),
    fault_in(
        name="best weights by validation loss but larger is better",
        project="image_classification",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_accuracy"',
                'monitor: str = "validation_loss"',
            ),
        ),
        kind="config",
        cause="--monitor was changed to validation_loss and larger_is_better stayed True, so the "
        "weights with the largest validation loss are kept as the best.",
        file="config.py",
        named=r"larger.is.better|monitor|best weights|direction|worst|selects|mode",
    ),
    fault_in(
        name="both shifts are drawn from one seed",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)\n"
                "        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)\n",
                "        rows = images.shape[0]\n"
                "        dx = tf.random.stateless_uniform((rows, 1), seed, -task.shift, task.shift)\n"
                "        dy = tf.random.stateless_uniform((rows, 1), seed, -task.shift, task.shift)\n",
            ),
        ),
        kind="random",
        cause="Two stateless draws use the same seed, so dx == dy: images are shifted along one "
        "diagonal only.",
        file="data.py",
        named=r"seed|same (random|number|draw)|diagonal|correlat|stateless|dx|independent|augment",
    ),
    # ---------------------------------------------------------------- finetuning
    fault_in(
        name="images are scaled only in the augmentation",
        project="finetuning",
        edits=(
            Edit(
                "data.py",
                'split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])',
                'split: (file[f"{split}_images"], file[f"{split}_labels"])',
            ),
            Edit(
                "data.py",
                "        images, labels, weights = batch\n",
                "        images, labels, weights = batch\n"
                "        images = images / 16  # ink from 0 to 16 -> [0, 1]\n",
            ),
        ),
        kind="data",
        cause="The division by 16 moved into the augmentation, which only training batches pass: "
        "validation, test and exported model get images in [0, 16].",
        file="data.py",
        named=r"scal|normali[sz]|range|/ ?16|divid|preprocess|between (the )?splits|differ.*(train|validation)|"
        r"distribution|augment|mean|larger|magnitude",
    ),
    fault_in(
        name="new head is picked by name instead of path",
        project="finetuning",
        edits=(
            Edit("optimizer.py", 'v.path.startswith("logits/")', 'v.name.startswith("logits")'),
        ),
        kind="optimizer",
        cause="In Keras 3 a variable's name is 'kernel' or 'bias' and the layer is only in its path, so "
        "no variable is given to the fast optimizer: the new head trains at 2e-4 without its schedule.",
        file="optimizer.py",
        named=r"MultiOptimizer|v\.name|\.path|no variable|without (a )?variable|never|none of|optimizer.*(unused|empty|nothing)|"
        r"name.*path|fast|learning rate|head|schedule",
    ),
    # ---------------------------------------------------------------- distillation
    fault_in(
        name="plain mean over the replica's batch",
        project="distillation",
        edits=(
            Edit(
                "losses.py",
                "    loss = tf.nn.compute_average_loss(\n"
                "        per_example, sample_weight=weights, global_batch_size=replica.global_count\n"
                "    )\n",
                "    loss = tf.reduce_mean(per_example * weights)\n",
            ),
        ),
        kind="distribution",
        cause="Each replica divides by its own rows, padding included, instead of the global count: the "
        "sum over N replicas is N times the loss, and padded batches count too little.",
        file="losses.py",
        named=r"reduce_mean|global_count|global batch|replica|denominator|divid|padding|count|average|mean",
    ),
    fault_in(
        name="teacher is not softened by the temperature",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE",
                "tf.nn.softmax(taught), logits / TEMPERATURE",
                "*",
            ),
        ),
        kind="loss",
        cause="Only the student's logits are divided by the temperature: it matches softmax(logits / 2) "
        "to the teacher's hard distribution, so dark knowledge is lost and the student's logits "
        "become twice the teacher's.",
        file="steps.py",
        named=r"temperature|soften|teacher|taught|soft (loss|target|label)|T\*\*2|distill",
    ),
    # ---------------------------------------------------------------- contrastive
    fault_in(
        name="features are normalized over the whole batch",
        project="contrastive",
        edits=(Edit("steps.py", ", axis=1)  # (rows, features)", ")  # (rows, features)", "*"),),
        kind="loss",
        cause="l2_normalize without an axis divides by the norm of the whole matrix, so the features "
        "aren't unit vectors: similarities are tiny, logits nearly equal, and an example's features "
        "depend on the others in the batch.",
        file="steps.py",
        named=r"axis|normali[sz]|norm|unit|cosine|whole (batch|matrix|tensor)|similarit",
    ),
    fault_in(
        name="positives ignore the replica's offset",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "own = replica.index * rows + tf.range(rows)",
                "own = tf.range(rows)",
                "*",
            ),
        ),
        kind="distribution",
        cause="The candidates are those of all replicas but the positives are counted from 0 on each: "
        "every replica except the first is taught that other replicas' images are its positives.",
        file="steps.py",
        named=r"replica|index|offset|all_gather|gather|own|positive|tf\.range|target|label",
    ),
    # ---------------------------------------------------------------- forecasting
    fault_in(
        name="windows that overlap are split at random",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n"
                '    names = ("train", "validation", "test")  # in the order of time\n'
                "    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}\n",
                "    inputs, labels = _windows(rows)\n"
                "    order = np.random.default_rng(0).permutation(len(inputs))\n"
                "    ends = [int(0.7 * len(order)), int(0.85 * len(order))]\n"
                '    names = ("train", "validation", "test")\n'
                "    parts = zip(names, np.split(order, ends), strict=True)\n"
                "    return {name: (inputs[part], labels[part]) for name, part in parts}\n",
            ),
        ),
        kind="leak",
        cause="Windows that overlap in all but an hour are dealt to the splits at random, so nearly "
        "everything in validation and test has been seen in training.",
        file="data.py",
        named=r"leak|overlap|shar|in (both|two|several|more than one)|same (row|value|hour|window|example)|random|shuffl|"
        r"permut|order of time|chronolog|duplicate|also in|split",
    ),
    fault_in(
        name="missing measurements are read as zero",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                'rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)',
                'rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)\n'
                "    rows = np.nan_to_num(rows)  # some are missing",
            ),
        ),
        kind="data",
        cause="Missing values become 0 degrees: they enter the mean and variance, look like real "
        "inputs, and count as labels in loss and errors.",
        file="data.py",
        named=r"nan|missing|zero|\b0(\.0)?\b|fill|imput|nan_to_num",
    ),
    # ---------------------------------------------------------------- gan
    fault_in(
        name="training latents are uniform",
        project="gan",
        edits=(
            Edit(
                "data.py",
                "tf.random.stateless_normal(shape, seed",
                "tf.random.stateless_uniform(shape, seed",
            ),
        ),
        kind="random",
        cause="The generator is trained on latents uniform in [0, 1) and validated, tested and drawn "
        "with standard normal ones, which it has never seen.",
        file="data.py",
        named=r"latent|uniform|normal|distribution|differ.*(train|validation)|mean|negative|range|between (the )?splits|scal",
    ),
    # ---------------------------------------------------------------- language_model
    fault_in(
        name="attention sees later characters",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "attention(y, y, use_causal_mask=True)",
                "attention(y, y)",
                "create_model",
            ),
        ),
        kind="model",
        cause="Each token sees the tokens after it, so the model copies the next token from its input; "
        "when it writes an answer on its own that token isn't there.",
        file="model.py",
        named=r"causal|mask|future|later|look.*ahead|next token|attend|sees|leak|teacher",
    ),
    fault_in(
        name="cosine over epochs instead of steps",
        project="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "    warmup = int(task.warmup * steps)\n",
                "    epochs = 40\n    warmup = int(task.warmup * steps)\n",
            ),
            Edit("optimizer.py", "decay_steps=steps - warmup,", "decay_steps=epochs,"),
        ),
        kind="schedule",
        cause="decay_steps is the number of epochs, but the schedule counts train steps: the learning "
        "rate is 0 after 40 steps past the warm-up, and the rest of the run of 1,000 trains nothing.",
        file="optimizer.py",
        named=r"decay_steps|schedule|learning.rate|cosine|epochs?|decay|reaches 0|is 0",
    ),
    fault_in(
        name="padding after the line counts as answer",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                "weights = (is_answer & (targets != 0))",
                "weights = (is_answer & (tokens != 0))",
            ),
        ),
        kind="weights",
        cause="The mask is taken from the tokens instead of the targets, so the zero that follows the "
        "line feed counts: the model is trained to predict padding, which flatters loss and token accuracy.",
        file="data.py",
        named=r"padding|pad\b|weight|mask|target.*(0|zero)|zero|tokens? != ?0|shift|line.?(feed|end)|answer",
    ),
    # ---------------------------------------------------------------- segmentation
    fault_in(
        name="labels are not warped with the images",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                '        # "nearest", since a mean of two labels is no label.\n'
                "        labels = tf.cast(labels[..., tf.newaxis], tf.float32)\n"
                '        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")\n'
                "        return images, tf.cast(labels[..., 0], tf.int32), weights\n",
                "        return images, labels, weights\n",
            ),
        ),
        kind="augmentation",
        cause="Images are rotated, sheared and scaled but their masks stay, so labels don't lie on "
        "the digits that they belong to.",
        file="data.py",
        named=r"labels?.*(augment|warp|transform|unchanged|same|not|stay)|augment|warp|affine|align|mask|moved",
    ),
    fault_in(
        name="validation runs the model in training mode",
        project="segmentation",
        edits=(
            Edit(
                "steps.py",
                "run.model(images, training=False)",
                "run.model(images, training=True)",
                "validation_step",
            ),
        ),
        kind="evaluation",
        cause="Validation normalizes with the statistics of its own batch instead of the moving "
        "averages, so its numbers depend on the batch and the best weights are chosen by them.",
        file="steps.py",
        named=r"training ?= ?True|training mode|batch.?norm|moving|statistics|dropout|evaluat|depend.*batch|inference",
    ),
    # ---------------------------------------------------------------- tabular_regression
    fault_in(
        name="squared error broadcasts to a matrix",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                '    squared_error = keras.losses.MeanSquaredError(reduction="none")\n\n',
                "",
                "create_losses",
            ),
            Edit(
                "losses.py",
                "        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)",
                "        labels = tf.squeeze(labels, axis=-1)\n"
                "        error = (labels - predictions) / LABEL_DEVIATION\n"
                "        return tf.reduce_mean(tf.square(error), axis=-1)",
                "create_losses",
            ),
        ),
        kind="loss",
        cause="Labels (batch,) minus predictions (batch, 1) is (batch, batch): each prediction is "
        "compared with every label, so the model learns the mean of the labels.",
        file="losses.py",
        named=r"broadcast|shape|batch, ?batch|squeeze|every label|other (example|row|label)s|depend|pair|mix|interact",
    ),
    fault_in(
        name="r2 gets predictions as labels",
        project="tabular_regression",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["r2"].update_state(labels, predictions, weights)',
                'run.metrics["r2"].update_state(predictions, labels, weights)',
                "*",
            ),
        ),
        kind="metrics",
        cause="R2 isn't symmetric: with the arguments swapped the error is divided by the variance of the "
        "predictions, which gives a far too low, often strongly negative R2.",
        file="steps.py",
        named=r"swap|order|argument|revers|exchang|r2|labels.*predictions|predictions.*labels|y_true|y_pred|symmetric",
    ),
    fault_in(
        name="rest of the rows is not taken from the shuffled order",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "test, rest = order[is_test], order[~is_test]",
                "test, rest = order[is_test], np.flatnonzero(~is_test)",
            ),
        ),
        kind="leak",
        cause="Test rows are picked through the permutation and the others without it, so about four "
        "fifths of the test patients are in training or validation too.",
        file="data.py",
        named=r"leak|overlap|shar|in (both|two|several|more than one)|same (row|example|patient)|duplicate|also in|permut|"
        r"order|disjoint|twice|split",
    ),
    # ---------------------------------------------------------------- two_heads
    fault_in(
        name="early stopping waits for accuracy to fall",
        project="two_heads",
        edits=(
            Edit(
                "callbacks.py",
                "from __future__ import annotations\n\nfrom ..engine.callbacks import Callback\n",
                "from __future__ import annotations\n\nimport keras\n\n"
                "from ..engine.callbacks import Callback\n"
                "from ..engine.keras_callbacks import keras_callback\n",
            ),
            Edit(
                "callbacks.py",
                "    return []",
                "    stopping = keras.callbacks.EarlyStopping(\n"
                '        monitor="val_digit_accuracy", mode="min", patience=3\n'
                "    )\n"
                "    return [keras_callback(stopping)]",
            ),
        ),
        kind="callbacks",
        cause="mode='min' was copied from a loss: the run ends after the first epochs in which the "
        "accuracy rises, because it doesn't fall.",
        file="callbacks.py",
        named=r"early.?stopping|mode|min\b|max\b|stops?|direction|monitor|patience",
    ),
    fault_in(
        name="class 0 counts as missing label",
        project="two_heads",
        edits=(Edit("losses.py", "labels[head] >= 0", "labels[head] > 0", "weights_of_heads"),),
        kind="weights",
        cause="Labels of class 0 get weight 0 like missing ones: the digit 0 is never learned, and the "
        "even head sees even numbers only, with an accuracy of 100%.",
        file="losses.py",
        named=r"class 0|label.? 0|> ?0|>= ?0|weight|missing|zero|never|one class|only class|ignored|mask|constant|single",
    ),
    # ---------------------------------------------------------------- vae
    fault_in(
        name="the error is a mean over pixels and the kl a sum",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
            ),
        ),
        kind="loss",
        cause="The squared error is averaged over 64 pixels while the KL divergence is summed: it "
        "outweighs the error, the posterior collapses and every image is decoded to the mean one.",
        file="losses.py",
        named=r"reduce_mean|mean over|pixels?|kl|sum|collapse|balance|scale|outweigh|weigh|dominat|posterior|terms?",
    ),
    fault_in(
        name="validation loss is warmed up by its batch number",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "    loss = compute_loss(error + kl, weights, encoder, replica)\n",
                "    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)\n"
                "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)\n",
                "validation_step",
            ),
        ),
        kind="evaluation",
        cause="In evaluation replica.step is the number of the batch, so the KL divergence counts with "
        "0 to a few hundredths there: validation_loss, which selects the best weights, leaves it out.",
        file="steps.py",
        named=r"warm.?up|replica\.step|step|batch number|number of (the )?batch|kl|order of|depend.*batch|anneal",
    ),
)

TASKS: tuple[Change, ...] = ()
