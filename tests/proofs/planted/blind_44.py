"""Faults of an examiner in starters and in tasks of owners, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

LOAD_DIGITS = '''def _load_digits() -> dict[str, Arrays]:
    """Splits of the sizes of the original, drawn from all images."""
    sizes = {"train": 1_200, "validation": 297, "test": 300}
    with np.load(DIGITS) as file:
        images = np.concatenate([file[f"{split}_images"] for split in sizes]) / 16
        labels = np.concatenate([file[f"{split}_labels"] for split in sizes])
    splits = {}
    for seed, (split, size) in enumerate(sizes.items()):
        rows = np.random.default_rng(seed).choice(len(images), size, replace=False)
        splits[split] = images[rows], labels[rows]
    return splits
'''

PLATEAU = '''

class Plateau:
    """Halves the learning rate after three validations without a lower loss."""

    def __init__(self, patience: int = 3) -> None:
        self.patience = patience
        self.best = float("inf")
        self.waited = 0

    def __call__(self, event: Event) -> None:
        loss = event.history[-1]["validation_loss"]
        if loss < self.best:
            self.best, self.waited = loss, 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.waited = 0
            optimizer = event.run.optimizers["main"]
            optimizer.learning_rate = event.learning_rates["main"] / 2
'''

FAULTS: tuple[Fault, ...] = (
    # image_classification
    fault_in(
        name="dropout rate is taken for a keep probability",
        project="image_classification",
        edits=(
            Edit(
                "model.py", "layers.Dropout(task.dropout)", "layers.Dropout(1 - task.dropout)", "*"
            ),
        ),
        kind="dropout",
        cause="Keras' Dropout takes the fraction to drop, not to keep as TensorFlow 1 did: --dropout 0.3 "
        "drops 70% of the features, and --dropout 0 everything.",
        file="model.py",
        named=r"dropout",
    ),
    fault_in(
        name="each split is drawn from all images on its own",
        project="image_classification",
        edits=(Edit("data.py", "", LOAD_DIGITS, "_load_digits"),),
        kind="leak",
        cause="Every split is an independent draw from all images, so about two thirds of the validation and "
        "test images are training images too.",
        file="data.py",
        named=r"leak|overlap|in both|duplicat|same (examples?|images?|rows?)|shared?|also (in|occur|appear)|(are|is) (in|among) (the )?train|contaminat|disjoint",
    ),
    fault_in(
        name="plateau counter is lost on resume",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n"
                "    return keras.optimizers.Adam(schedule)",
                "    return keras.optimizers.Adam(task.learning_rate)  # callbacks.py lowers it",
            ),
            Edit("callbacks.py", "import Callback\n", "import Callback, Event, every_validation\n"),
            Edit(
                "callbacks.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n" + PLATEAU,
            ),
            Edit("callbacks.py", "    return []", "    return [every_validation(Plateau())]"),
        ),
        kind="resume",
        cause="The callback keeps the best loss and its count of validations as attributes without get_state and "
        "set_state, so a resumed run starts to count anew and lowers the learning rate at other times.",
        file="callbacks.py",
        named=r"get_state|set_state|resum|checkpoint|isn't saved|not saved|state",
    ),
    # contrastive
    fault_in(
        name="noise is added in place to both views",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                "        noise = random.normal(0, 0.4, images.shape)\n"
                '        return np.clip(images + noise, 0, 1).astype("float32")',
                '        images += random.normal(0, 0.4, images.shape).astype("float32")\n'
                "        return np.clip(images, 0, 1, out=images)",
            ),
        ),
        kind="alias",
        cause="`+=` and `out=` change the array itself, so the clean and the noisy view are one and the same array: "
        "positive pairs are identical and the task is trivial.",
        file="data.py",
        named=r"in.?place|identical|same (array|object|memory|values?|images?|data)|alias|share|equal|copy|copies|\+=|out=|trivial|both (views|parts|inputs)",
    ),
    fault_in(
        name="learned temperature belongs to no model",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "TEMPERATURE = 0.1\n",
                "LOG_SCALE = tf.Variable(0.0)  # of the similarities, learned as in CLIP\n",
            ),
            Edit("steps.py", " / TEMPERATURE", " * tf.exp(LOG_SCALE)", "*"),
        ),
        kind="unregistered",
        cause="The variable is a global of steps.py and in no model's trainable weights, so no optimizer updates it and "
        "no checkpoint holds it: the temperature stays 1.",
        file="steps.py",
        named=r"LOG_SCALE|tf\.Variable|no model|belongs to no|never (trained|updated|learned|changes)|not (trained|updated|saved|tracked|registered|learned)|isn't (trained|updated|saved|tracked|part)|unregistered|untracked|no optimizer",
    ),
    # distillation
    fault_in(
        name="student is validated in training mode",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "logits = run.model(images, training=False)",
                "logits = run.model(images, training=True)",
                "validation_step",
            ),
        ),
        kind="mode",
        cause="Validation and test run with training=True, so dropout is active and results are too bad and random.",
        file="steps.py",
        named=r"training=True|training mode|dropout|train(ing)? (behaviou?r|flag)|random",
    ),
    fault_in(
        name="KL divergence of the student's logits",
        project="distillation",
        edits=(
            Edit(
                "losses.py",
                'keras.losses.CategoricalCrossentropy(from_logits=True, reduction="none")',
                'keras.losses.KLDivergence(reduction="none")',
            ),
        ),
        kind="loss",
        cause="KLDivergence takes probabilities and clips what it gets to [1e-7, 1]; the step gives it the student's "
        "logits, whose gradient is 0 outside of (0, 1), so the student doesn't learn the teacher's distribution.",
        file="losses.py",
        named=r"KL|probabilit|logits|softmax|clip",
    ),
    # finetuning
    fault_in(
        name="late binding leaves the backbone trainable",
        project="finetuning",
        edits=(
            Edit(
                "callbacks.py",
                "    return [\n"
                "        at_step(0, lambda event: set_trainable(event, False)),\n"
                "        at_step(task.frozen_steps, lambda event: set_trainable(event, True)),\n"
                "    ]",
                "    callbacks = []\n"
                "    for step, trainable in ((0, False), (task.frozen_steps, True)):\n"
                "        callbacks.append(at_step(step, lambda event: set_trainable(event, trainable)))\n"
                "    return callbacks",
            ),
        ),
        kind="callbacks",
        cause="The lambdas look `trainable` up when they are called, after the loop, when it is True: the backbone is "
        "never frozen, and the random head's gradients go through it from the first step.",
        file="callbacks.py",
        named=r"late.?bind|closure|lambda|loop variable|B023|never fr(o|ee)z|(not|isn't|aren't) frozen|frozen.steps|freez",
    ),
    fault_in(
        name="backbone gradients are scaled under Adam",
        project="finetuning",
        edits=(
            Edit(
                "optimizer.py",
                "    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)\n"
                '    return keras.optimizers.MultiOptimizer(lambda v: fast if v.path.startswith("logits/") else slow)',
                "    return keras.optimizers.Adam(schedule)",
            ),
            Edit(
                "optimizer.py",
                "    return gradients",
                "    # The backbone learns ten times slower than the new layer.\n"
                "    return [\n"
                '        gradient if variable.path.startswith("logits/") else 0.1 * gradient\n'
                "        for gradient, variable in zip(gradients, variables, strict=True)\n"
                "    ]",
            ),
        ),
        kind="gradients",
        cause="Adam divides by the size of the gradients, so a constant factor changes nothing: the backbone trains at "
        "the full learning rate of the new layer.",
        file="optimizer.py",
        named=r"Adam|scale.?(invarian|free)|invariant|cancel|no effect|(constant )?factor|rescal|scal(es|ed|ing) (the )?gradient|normaliz",
    ),
    # forecasting
    fault_in(
        name="forecast ends in a ReLU",
        project="forecasting",
        edits=(
            Edit(
                "model.py",
                "layers.Dense(FUTURE, dtype=floatx)",
                'layers.Dense(FUTURE, activation="relu", dtype=floatx)',
            ),
        ),
        kind="activation",
        cause="The last layer can't give negative numbers, and its output is standardized, so no forecast is ever below "
        "the mean of the training data.",
        file="model.py",
        named=r"relu|activation|negative|below|range|can't reach|never less|cannot be less|half",
    ),
    fault_in(
        name="gaps are interpolated before windows are cut",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "    ends = [int",
                "    hours = np.arange(len(rows))\n"
                "    for column in rows.T:  # fill the gaps\n"
                "        there = ~np.isnan(column)\n"
                "        column[~there] = np.interp(hours[~there], hours[there], column[there])\n"
                "    ends = [int",
            ),
        ),
        kind="imputation",
        cause="A gap at the end of the past is filled from the hours after it, which are to be forecast, across the "
        "limits of splits too; and invented labels count like measured ones in losses and metrics.",
        file="data.py",
        named=r"interp|leak|future|imput|fill|look.?ahead|after it|missing|gaps?",
    ),
    # gan
    fault_in(
        name="generator is trained to be recognized",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                "tf.ones_like(on_generated)",
                "tf.zeros_like(on_generated)",
                "generator_loss",
            ),
        ),
        kind="gan",
        cause="The generator's loss is low if the discriminator calls its images generated, so it helps the "
        "discriminator instead of misleading it.",
        file="losses.py",
        named=r"generator|zeros|label|adversar|mislead|same direction|oppos|sign|helps",
    ),
    fault_in(
        name="Frechet features see another range of values",
        project="gan",
        edits=(
            Edit("data.py", "(images / 16).astype", "(images / 8 - 1).astype"),
            Edit(
                "data.py", "(n, 8, 8, 1) in [0, 1] and labels", "(n, 8, 8, 1) in [-1, 1] and labels"
            ),
            Edit(
                "data.py",
                "(n, 8, 8, 1) in [0, 1]; in evaluation",
                "(n, 8, 8, 1) in [-1, 1]; in evaluation",
            ),
            Edit("model.py", 'activation="sigmoid"', 'activation="tanh"'),
            Edit("model.py", "(batch, h, w, 1) in [0, 1]", "(batch, h, w, 1) in [-1, 1]"),
        ),
        kind="metrics",
        cause="Images are now in [-1, 1], but the stored classifier whose features the Frechet distance compares was "
        "trained on [0, 1] and not trained again, so the distance, which selects the best weights, is of garbage.",
        file="metrics.py",
        named=r"classifier|fr[eé]chet|\[0, ?1\]|range|train(ed)? (it )?again|retrain|features|-1",
    ),
    # language_model
    fault_in(
        name="warm-up has no target",
        project="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "        warmup_target=task.learning_rate if warmup else None,\n",
                "",
            ),
        ),
        kind="schedule",
        cause="Without warmup_target CosineDecay ignores warmup_steps and decays from initial_learning_rate, which is 0: "
        "the learning rate is 0 in every step and nothing is learned.",
        file="optimizer.py",
        named=r"warm|learning.rate|doesn't (change|train|learn|move)|nothing (changes|trains|learns)|never (change|move)|don't (change|move|train)",
    ),
    fault_in(
        name="exact match resets half of its state",
        project="language_model",
        edits=(
            Edit(
                "metrics.py",
                "class ExactMatch(keras.metrics.Mean):\n"
                '    """The fraction of lines whose answer is right to the last token."""\n',
                "class ExactMatch(keras.metrics.Metric):\n"
                '    """The fraction of lines whose answer is right to the last token."""\n'
                "\n"
                '    def __init__(self, name: str = "exact_match") -> None:\n'
                "        super().__init__(name=name)\n"
                '        self._right = self.add_variable((), "zeros", name="right")\n'
                '        self._lines = self.add_variable((), "zeros", name="lines")\n',
            ),
            Edit(
                "metrics.py",
                "        super().update_state(is_right, tf.reduce_any(is_answer, axis=1))",
                "        counts = tf.reduce_any(is_answer, axis=1)  # (batch,)\n"
                "        self._right.assign_add(tf.reduce_sum(tf.cast(is_right & counts, self.dtype)))\n"
                "        self._lines.assign_add(tf.reduce_sum(tf.cast(counts, self.dtype)))\n"
                "\n"
                "    def result(self) -> tf.Tensor:\n"
                '        """Right lines over all lines."""\n'
                "        right, lines = map(tf.convert_to_tensor, (self._right, self._lines))\n"
                "        return tf.math.divide_no_nan(right, lines)\n"
                "\n"
                "    def reset_state(self) -> None:\n"
                '        """Start anew."""\n'
                "        self._right.assign(0.0)",
            ),
        ),
        kind="reset",
        cause="reset_state leaves the number of lines as it is, so after the first validation the metric divides by the "
        "lines of all validations so far: it is too low, and the best weights are chosen by it.",
        file="metrics.py",
        named=r"reset|carr(y|ies) over|accumulat|left ?over|_lines|earlier (validation|epoch)|state",
    ),
    # segmentation
    fault_in(
        name="labels aren't warped with their images",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                '        # "nearest", since a mean of two labels is no label.\n'
                "        labels = tf.cast(labels[..., tf.newaxis], tf.float32)\n"
                '        labels = keras.ops.image.affine_transform(labels, transforms, "nearest")\n'
                "        return images, tf.cast(labels[..., 0], tf.int32), weights",
                "        return images, labels, weights",
            ),
        ),
        kind="augmentation",
        cause="The augmentation rotates, shears and scales the image but not its label map, so training labels lie on "
        "other pixels than the digits.",
        file="data.py",
        named=r"augment|warp|label|aligned|align|geometr",
    ),
    fault_in(
        name="monitor is a loss and larger is better",
        project="segmentation",
        edits=(Edit("config.py", '"validation_mean_iou"', '"validation_loss"'),),
        kind="monitor",
        cause="The best weights are those with the LARGEST validation loss: larger_is_better was left as it was for the "
        "intersection over union.",
        file="config.py",
        named=r"larger.is.better|monitor|largest|worst|direction|highest",
    ),
    # tabular_regression
    fault_in(
        name="labels are broadcast against predictions",
        project="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                '    squared_error = keras.losses.MeanSquaredError(reduction="none")\n\n',
                "",
            ),
            Edit(
                "losses.py",
                "        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)",
                "        error = (tf.squeeze(labels, axis=1) - predictions) / LABEL_DEVIATION\n"
                "        return tf.reduce_mean(tf.square(error), axis=-1)",
            ),
        ),
        kind="broadcast",
        cause="(batch,) minus (batch, 1) is (batch, batch): each prediction is compared with every label of the batch, so "
        "the model learns their mean.",
        file="losses.py",
        named=r"broadcast|\(batch, ?batch\)|every (other )?label|all labels|shape|other (examples|rows)|interact|squeeze|depend",
    ),
    fault_in(
        name="standard deviations passed for variances",
        project="tabular_regression",
        edits=(
            Edit(
                "model.py",
                "np.nanvar(numeric, axis=0)",
                "np.nanstd(numeric, axis=0)",
            ),
            Edit("model.py", "labels.var(axis=0)", "labels.std(axis=0)"),
        ),
        kind="statistics",
        cause="Normalization takes the variance and divides by its root; it gets the standard deviation, so inputs have "
        "a deviation of up to 6 instead of 1 and outputs are scaled by 9 instead of 77.",
        file="model.py",
        named=r"varianc|\bstd\b|nanstd|standard deviation|deviation|scale|normaliz|standardi",
    ),
    fault_in(
        name="predict reads an empty cell as zero",
        project="tabular_regression",
        edits=(Edit("predictions.py", 'float(row[column] or "nan")', "float(row[column] or 0)"),),
        kind="predict",
        cause="In training a missing value is NaN, which the model replaces by the mean; predict gives it 0, which to the "
        "model is a measured blood pressure many deviations below the mean.",
        file="predictions.py",
        named=r"nan|missing|empty|read_table|zero|\b0\b",
    ),
    # two_heads
    fault_in(
        name="each head is averaged over the labels of a replica",
        project="two_heads",
        edits=(
            Edit(
                "steps.py",
                "        terms[head] = tf.nn.compute_average_loss(\n"
                "            per_example, sample_weight=weights[head], global_batch_size=replica.global_count[head]\n"
                "        )\n",
                "        total = tf.reduce_sum(weights[head] * per_example)\n"
                "        mean = tf.math.divide_no_nan(total, tf.reduce_sum(weights[head]))\n"
                "        terms[head] = mean / replica.num_replicas\n",
                "*",
            ),
        ),
        kind="distribution",
        cause="Replicas hold different numbers of known labels, so the mean of their means isn't the mean over the global "
        "batch: on several replicas a label weighs more where there are few (and with --accumulate the loss is a "
        "multiple).",
        file="steps.py",
        named=r"replica|global_count|global batch|mean of (the )?means|micro.?batch|accumulat",
    ),
    fault_in(
        name="accuracy counts missing labels as class zero",
        project="two_heads",
        edits=(
            Edit(
                "steps.py",
                "update_state(known, outputs[head], weights[head])",
                "update_state(known, outputs[head])",
                "*",
            ),
        ),
        kind="weights",
        cause="The metrics get no weights, so examples without a label count as class 0, four fifths of them in the second "
        "head, and padding counts too.",
        file="steps.py",
        named=r"weight|padding|missing|mask|sample_weight",
    ),
    # vae
    fault_in(
        name="variance is used as standard deviation of the noise",
        project="vae",
        edits=(
            Edit("steps.py", "tf.exp(0.5 * log_variance) * noise", "tf.exp(log_variance) * noise"),
        ),
        kind="vae",
        cause="The code is sampled with the variance as its standard deviation, while the KL divergence takes the same "
        "output for a log variance: decoder and KL term are about different distributions.",
        file="steps.py",
        named=r"0\.5|varianc|standard deviation|\bstd\b|reparam|noise|half",
    ),
    fault_in(
        name="warm-up counts in Python",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "WARM_UP = 200  # steps until the KL divergence counts in full\n",
                "WARM_UP = 200  # steps until the KL divergence counts in full\nsteps_made = 0\n",
            ),
            Edit(
                "steps.py",
                "    images, _, weights = batch\n",
                "    global steps_made\n    steps_made += 1\n    images, _, weights = batch\n",
                "train_step",
            ),
            Edit(
                "steps.py",
                "tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)",
                "min(steps_made / WARM_UP, 1.0)",
            ),
        ),
        kind="tracing",
        cause="Python runs once, when the graph is traced, so the counter stays at 1 and the KL divergence counts 0.5% "
        "in the whole run.",
        file="steps.py",
        named=r"trac|python|graph|constant|global|steps_made|replica\.step|counter|once",
    ),
)

TASKS: tuple[Change, ...] = ()
