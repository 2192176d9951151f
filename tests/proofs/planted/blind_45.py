"""Faults of an examiner in starters and in tasks of owners, two thirds of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

FAULTS: tuple[Fault, ...] = (
    # ------------------------------------------------------------------ image_classification
    fault_in(
        name="softmax before a loss of logits",
        project="image_classification",
        edits=(
            Edit(
                "model.py",
                'logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)',
                'logits = layers.Dense(\n        CLASSES, activation="softmax", dtype=keras.config.floatx(), name="logits"\n    )(x)',
                "create_model",
            ),
        ),
        kind="logits",
        cause="The last layer has a softmax although the loss has from_logits=True (and describe applies softmax too), "
        "so softmax is applied twice: gradients are weak, the loss can't fall below 1.46, confidences are flat.",
        file="model.py",
        named=r"softmax|from_logits|probabilit|twice|activation of (the|its) (last|output)",
    ),
    fault_in(
        name="images and labels shuffled apart",
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
                """    random = np.random.default_rng(0)
    with np.load(DIGITS) as file:
        splits = {
            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
        }
    for images, labels in splits.values():
        random.shuffle(images)
        random.shuffle(labels)
    return splits
""",
                "_load_digits",
            ),
        ),
        kind="shuffling",
        cause="Images and labels are shuffled with two different permutations, so labels no longer belong to their images.",
        file="data.py",
        named=r"shuffl|permut|not (belong|match|correspond|fit)|mismatch|(independent|separate)ly|label.*(random|unrelated|chance|noise|nothing to do|order|align|pair|independent)|pair|align|chance",
    ),
    fault_in(
        name="test step in training mode",
        project="image_classification",
        edits=(Edit("steps.py", "training=False", "training=True", "test_step"),),
        kind="evaluation",
        cause="The test step calls the model with training=True, so dropout is active in the test and its results are too bad and random.",
        file="steps.py",
        named=r"training\s*=\s*(True|False)|training mode|dropout|inference mode|test_step|test step|random",
    ),
    fault_in(
        name="regularization left out of the loss",
        project="image_classification",
        edits=(
            Edit(
                "losses.py",
                "return loss + tf.nn.scale_regularization_loss(replica.regularization(model))",
                "return loss",
                "compute_loss",
            ),
        ),
        kind="regularization",
        cause="The layers have an L2 regularizer, but the loss never adds model.losses, so --l2 has no effect.",
        file="losses.py",
        named=r"regulari|\bl2\b|model\.losses|weight penalt",
    ),
    fault_in(
        name="gradient noise differs between replicas",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                "    # Gradient noise (Neelakantan et al., 2015), against sharp minima.\n"
                "    return [g + tf.random.normal(tf.shape(g), stddev=1e-3, dtype=g.dtype) for g in gradients]\n",
                "process_gradients",
            ),
        ),
        kind="randomness",
        cause="The noise is drawn by tf.random.normal on every replica for itself, after the sum over the replicas, so that the "
        "copies of the weights drift apart on several replicas (and runs can't be repeated or resumed exactly); "
        "process_gradients must return the same on each replica.",
        file="optimizer.py",
        named=r"noise|tf\.random|random\.normal|stateless|stateful|differ\w*.*replica|replica.*(differ|diverg|drift|same|apart|own|equal)|diverg|drift|reproduc|unseeded|process_gradients",
    ),
    # ------------------------------------------------------------------ segmentation
    fault_in(
        name="digit zero labeled as background",
        project="segmentation",
        edits=(Edit("data.py", "= classes[index] + 1", "= classes[index]", "_compose"),),
        kind="labels",
        cause="The classes of digits aren't shifted by 1, so that pixels of the digit 0 get the background's label, "
        "all digits are off by one and class 10 never occurs.",
        file="data.py",
        named=r"\+ ?1|off by one|background|class(es)? (10|0)\b|label.*(10|0)\b|never (occurs|appears|seen)|no (pixel|example|label)|absent|unused class|missing class|shift|labels?.*(encod|wrong|collid|range)|CLASSES",
    ),
    fault_in(
        name="skip connections unused",
        project="segmentation",
        edits=(
            Edit(
                "model.py",
                "x = layers.Concatenate()([layers.UpSampling2D()(x), skipped[level]])",
                "x = layers.UpSampling2D()(x)",
                "create_model",
            ),
        ),
        kind="wiring",
        cause="The decoder doesn't concatenate the encoder's features (`skipped` is filled but never read), so the U-Net has no skip connections.",
        file="model.py",
        named=r"skip|concat|u-?net|encoder|unused|never (used|read)|not used",
    ),
    fault_in(
        name="schedule counts epochs instead of steps",
        project="segmentation",
        edits=(
            Edit(
                "optimizer.py",
                "decay_steps=steps)",
                "decay_steps=40)  # epochs",
                "create_optimizer",
            ),
        ),
        kind="schedule",
        cause="decay_steps is the number of epochs although the schedule counts train steps, so the learning rate is 0 after 40 of 320 "
        "steps and nothing is learned after it.",
        file="optimizer.py",
        named=r"decay|schedule|learning[ _-]rate|epochs|cosine",
    ),
    fault_in(
        name="image and labels warped by different draws",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                """        images, labels, weights = batch
        rows, center = images.shape[0], (CANVAS - 1) / 2
        warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp) + tf.eye(2)
        offset = center - center * tf.reduce_sum(warp, axis=2, keepdims=True)  # fixes the center
        # A pixel p of the result comes from warp @ p + offset.
        transforms = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
        transforms = tf.pad(transforms, [[0, 0], [0, 2]])  # (batch, 8)
        images = keras.ops.image.affine_transform(images, transforms)
""",
                """        images, labels, weights = batch
        rows, center = images.shape[0], (CANVAS - 1) / 2

        def draw(seed: tf.Tensor) -> tf.Tensor:
            warp = tf.random.stateless_uniform((rows, 2, 2), seed, -task.warp, task.warp)
            warp += tf.eye(2)
            offset = center - center * tf.reduce_sum(warp, axis=2, keepdims=True)  # fixes the center
            # A pixel p of the result comes from warp @ p + offset.
            transforms = tf.reshape(tf.concat([warp, offset], axis=2), (rows, 6))
            return tf.pad(transforms, [[0, 0], [0, 2]])  # (batch, 8)

        seeds = tf.random.experimental.stateless_split(seed, 2)  # a seed must not be used twice
        images = keras.ops.image.affine_transform(images, draw(seeds[0]))
""",
                "create_augment",
            ),
            Edit(
                "data.py",
                'labels = keras.ops.image.affine_transform(labels, transforms, "nearest")',
                'labels = keras.ops.image.affine_transform(labels, draw(seeds[1]), "nearest")',
                "create_augment",
            ),
        ),
        kind="augmentation",
        cause="Images and label maps are rotated, sheared and scaled by two different random transforms, so that the labels no longer "
        "lie on their digits in training.",
        file="data.py",
        named=r"augment|warp|transform|seeds?\b|draw|same (random|draw)|misalign|align|(not|n't|no longer) (fit|match|move|lie)|different",
    ),
    # ------------------------------------------------------------------ language_model
    fault_in(
        name="attention sees later tokens",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "attention(y, y, use_causal_mask=True)",
                "attention(y, y)",
                "create_model",
            ),
        ),
        kind="mask",
        cause="Without the causal mask each token attends to later ones and reads the answer that it should predict; "
        "validation looks perfect, decoding fails.",
        file="model.py",
        named=r"causal|mask|later token|future|look(s|ing)? ahead|next token|leak|attend",
    ),
    fault_in(
        name="position embedding replaces the tokens",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "x = x + layers.Embedding(length, task.width)(positions)",
                "x = layers.Embedding(length, task.width)(positions)",
                "create_model",
            ),
        ),
        kind="input",
        cause="The embedding of positions overwrites that of tokens instead of being added, so the model knows nothing of the tokens: "
        "its output is the same for every input.",
        file="model.py",
        named=r"embedding|position|ignor|(not|n't|never) (depend|use|read|see|change|look)|independent of|same (output|logits|prediction)|overwrit|unused|constant|no (influence|effect)|input|tokens",
    ),
    fault_in(
        name="exact match needs one right token only",
        project="language_model",
        edits=(
            Edit(
                "metrics.py",
                "is_right = tf.reduce_all(",
                "is_right = tf.reduce_any(",
                "update_state",
            ),
        ),
        kind="metrics",
        cause="reduce_any instead of reduce_all: as prompt and padding count as right, exact_match is always 1, "
        "and the monitor picks the first validation.",
        file="metrics.py",
        named=r"reduce_(any|all)|exact.?match|always (1|one|right|true|perfect)|any token|metric",
    ),
    # ------------------------------------------------------------------ gan
    fault_in(
        name="generator rewarded for being found out",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                "tf.ones_like(on_generated)",
                "tf.zeros_like(on_generated)",
                "generator_loss",
            ),
        ),
        kind="loss",
        cause="The generator's loss has labels 0 for generated images, so that it learns to be recognized as a fake "
        "instead of misleading the discriminator.",
        file="losses.py",
        named=r"zeros_like|ones_like|generator.*(loss|label|target|sign|wrong|direction|help|fool|mislead|fake)|fool|mislead|opposite|adversar|label.*(0|1|flip|swap|invert|wrong)|sign",
    ),
    fault_in(
        name="monitor takes the largest distance",
        project="gan",
        edits=(
            Edit(
                "config.py",
                "larger_is_better: bool = False",
                "larger_is_better: bool = True",
            ),
        ),
        kind="monitor",
        cause="The Frechet distance is better the smaller it is, but larger_is_better is True, so the worst weights are kept as the best.",
        file="config.py",
        named=r"larger.is.better|monitor|smaller|lower is better|worst|direction|frechet|best weights",
    ),
    fault_in(
        name="generated statistics never reset",
        project="gan",
        edits=(
            Edit(
                "metrics.py",
                '''    def result(self) -> tf.Tensor:
        """The distance, a float64 scalar; 0 before the first image."""
''',
                '''    def reset_state(self) -> None:
        """Forget the images."""
        self._real.assign(tf.zeros(self._real.shape, tf.float64))

    def result(self) -> tf.Tensor:
        """The distance, a float64 scalar; 0 before the first image."""
''',
            ),
        ),
        kind="state",
        cause="reset_state clears the sums of real images only; those of generated images go on adding up over all evaluations, "
        "so the distance is that of all earlier generators together, and the monitor is wrong.",
        file="metrics.py",
        named=r"reset|_generated|accumulat|(left|stale|old|earlier|previous) (over|state|images|values|evaluation|validation)|carr(y|ies|ied)|state|add(s|ing)? up|frechet",
    ),
    # ------------------------------------------------------------------ tabular_regression
    fault_in(
        name="validation rows are trained on",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "inputs, labels = examples(rest[~is_validation])",
                "inputs, labels = examples(rest)",
                "create_datasets",
            ),
        ),
        kind="split",
        cause="The training data is all of `rest`, of which the validation rows are a part: validation measures what was trained on, "
        "and the choice of the best weights is worthless.",
        file="data.py",
        named=r"split|overlap|leak|validation.*(train|also|same|contain|part|in)|duplicat|in both|is_validation|share|same (rows|examples)|contaminat",
    ),
    fault_in(
        name="betas of adam swapped",
        project="gan",
        edits=(Edit("optimizer.py", "beta_1=0.5", "beta_1=0.999, beta_2=0.5", "*"),),
        kind="optimizer",
        cause="beta_1 and beta_2 are swapped: the momentum averages the gradients of a thousand steps, though each model's task changes "
        "with the other, and the scale of the steps comes from two steps only; the models swing and don't get close to real images.",
        file="optimizer.py",
        named=r"beta|momentum|swap|adam",
    ),
    fault_in(
        name="columns of the csv in another order",
        project="tabular_regression",
        edits=(
            Edit(
                "predictions.py",
                'NUMERIC = ("age", "bmi", "bp", ',
                'NUMERIC = ("age", "bp", "bmi", ',
            ),
        ),
        kind="reading",
        cause="The reader puts bp before bmi, while the training data has bmi first, so predictions from CSV files get the blood pressure as the "
        "body mass index and vice versa.",
        file="predictions.py",
        named=r"order|NUMERIC|column|bmi|\bbp\b|swap|read_table|csv|numeric_columns",
    ),
    # ------------------------------------------------------------------ the others
    fault_in(
        name="positives of the first replica for all",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`",
                "own = tf.range(rows)  # the row with the same image",
                "*",
            ),
        ),
        kind="distribution",
        cause="`candidates` has the rows of all replicas, but the labels don't add replica.index * rows, so every replica but the first "
        "takes other images of replica 0 for its positives.",
        file="steps.py",
        named=r"replica|offset|index|tf\.range|gather|positive|\bown\b|candidates",
    ),
    fault_in(
        name="class zero is taken for missing",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "labels[head] >= 0",
                "labels[head] > 0",
                "weights_of_heads",
            ),
        ),
        kind="missing",
        cause="A label of -1 is missing, but > 0 gives weight 0 to class 0 too: the digit 0 and odd numbers are neither trained nor evaluated, "
        "and the head `even` only ever sees one class.",
        file="losses.py",
        named=r"> ?=? ?0|class(es)? 0|class zero|label(s)?( of)? (0|zero)|digit 0|\b(zero|0)\b.*(weight|missing|ignor|count|drop|left out|excluded|mask)|missing|mask|-1|weights?_of_heads|odd|one class|only class|never (train|count|seen)|weight (of )?0",
    ),
    fault_in(
        name="reconstruction averaged and divergence summed",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "return tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
                "squares",
            ),
        ),
        kind="reduction",
        cause="The squared error is averaged over 64 pixels while the KL divergence is summed over the code, so KL weighs 64 times too much and the "
        "posterior collapses: every image is decoded to the same mean.",
        file="losses.py",
        named=r"reduce_(mean|sum)|mean over|averag|sum(med)? over|pixel|\bkl\b|collaps|balance|weigh|scale|divergence|reconstruct|ignores? (its|the) (code|input|image)|same (output|image)|constant",
    ),
    fault_in(
        name="backbone is never unfrozen",
        project="finetuning",
        edits=(
            Edit(
                "callbacks.py",
                "at_step(task.frozen_steps, lambda event: set_trainable(event, True))",
                "at_step(task.frozen_steps, lambda event: set_trainable(event, False))",
                "create_callbacks",
            ),
        ),
        kind="frozen",
        cause="The second callback sets trainable to False once more, so the backbone stays frozen for the whole run "
        "although it should be trained after --frozen-steps.",
        file="callbacks.py",
        named=r"froz|freez|trainable|backbone|never (train|change|update)|(not|n't) (train|change|update)|untrained|frozen_steps",
    ),
    fault_in(
        name="past window holds the future",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "windows[:, :, :PAST].swapaxes(1, 2)",
                "windows[:, :, -PAST:].swapaxes(1, 2)",
                "_windows",
            ),
        ),
        kind="leak",
        cause="The inputs are the last 24 hours of each window of 30 instead of the first, so they contain the six hours that are to be forecast.",
        file="data.py",
        named=r"leak|future|overlap|contain|labels?.*input|input.*(label|target)|target|PAST|window|cop(y|ied|ies)|look.?ahead",
    ),
    fault_in(
        name="decay of a callback forgotten by resuming",
        project="distillation",
        edits=(
            Edit(
                "optimizer.py",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.Adam(schedule)
""",
                """    return keras.optimizers.Adam(task.learning_rate)  # callbacks.py lowers it
""",
                "create_optimizer",
            ),
            Edit(
                "callbacks.py",
                """from ..engine.callbacks import Callback
from .config import TaskConfig
""",
                """from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig


class _Decay:
    \"\"\"Lowers the learning rate by a tenth after each epoch.\"\"\"

    def __init__(self, learning_rate: float) -> None:
        self._learning_rate = learning_rate

    def __call__(self, event: Event) -> None:
        self._learning_rate *= 0.9
        event.run.optimizers["main"].learning_rate = self._learning_rate
""",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                "    return [every_epochs(1, _Decay(task.learning_rate))]\n",
                "create_callbacks",
            ),
        ),
        kind="resume",
        cause="The callback keeps the current learning rate in an attribute and has neither get_state nor set_state, so a checkpoint doesn't hold it: "
        "a resumed run jumps back to the initial learning rate.",
        file="callbacks.py",
        named=r"get_state|set_state|state|resum|checkpoint|restor|not saved|isn't saved|starts? (again|anew|over)|continu|learning.rate",
    ),
)

TASKS: tuple[Change, ...] = ()
