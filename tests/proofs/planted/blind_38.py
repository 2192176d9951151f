"""Faults of an examiner in starters and tasks of owners, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

IMAGE = (
    fault_in(
        name="image accuracy is that of the top five",
        project="image_classification",
        edits=(
            Edit(
                "metrics.py",
                'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
                'return {"accuracy": keras.metrics.SparseTopKCategoricalAccuracy()}',
            ),
        ),
        kind="metrics",
        cause="The metric called accuracy is SparseTopKCategoricalAccuracy, whose default is k=5: a label among the five likeliest of ten classes counts as right.",
        file="metrics.py",
        named=r"top.?(k|5|five)|k ?= ?5|five (likeliest|largest|highest|best)",
    ),
    fault_in(
        name="image patience is lost on resume",
        project="image_classification",
        edits=(
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback, Event, every_validation\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                '''    return [every_validation(Patience(task, 10))]


class Patience:
    """Stops a run whose monitored column hasn't improved for so many validations."""

    def __init__(self, task: TaskConfig, validations: int) -> None:
        self.column = task.monitor
        self.sign = 1.0 if task.larger_is_better else -1.0
        self.validations = validations
        self.best = float("-inf")
        self.waited = 0

    def __call__(self, event: Event) -> None:
        """Compare the latest validation with the best one before it."""
        value = self.sign * event.history[-1][self.column]
        self.waited = 0 if value > self.best else self.waited + 1
        self.best = max(self.best, value)
        if self.waited >= self.validations:
            event.stop()
''',
            ),
        ),
        kind="state",
        cause="The early stopping keeps its best value and its count in attributes without get_state and set_state, so no checkpoint holds them and a resumed run starts to count anew.",
        file="callbacks.py",
        named=r"get_state|set_state|(state|patience|counter|count|waited|best|early.?stop)[^.]{0,80}(resum|checkpoint|restor|lost|forgot|not saved|isn't saved|persist)|(resum|checkpoint|restor)[^.]{0,80}(state|patience|counter|count|waited|early.?stop)",
    ),
    fault_in(
        name="image schedule decays in epochs",
        project="image_classification",
        edits=(
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nEPOCHS = 40  # of a run, along which the learning rate decays\n",
            ),
            Edit("optimizer.py", "decay_steps=steps)", "decay_steps=EPOCHS)"),
        ),
        kind="schedule",
        cause="CosineDecay counts train steps, and gets the number of epochs (40) as decay_steps: the learning rate is 0 after 40 steps.",
        file="optimizer.py",
        named=r"decay_steps|epochs?[^.]{0,60}steps?|learning.?rate[^.]{0,80}(0|zero|too (early|soon|fast)|constant|unit)|schedule[^.]{0,80}(unit|end|zero|early|soon|short)",
    ),
)

SEGMENTATION = (
    fault_in(
        name="segmentation ink is divided by 255",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                "inks = tf.image.resize(digits[..., np.newaxis] / 16, (DIGIT, DIGIT)).numpy()[..., 0]",
                "inks = tf.image.resize(digits[..., np.newaxis] / 255, (DIGIT, DIGIT)).numpy()[..., 0]",
            ),
        ),
        kind="data",
        cause="The ink goes from 0 to 16 but is divided by 255, so it never reaches the thresholds FAINT and DARK and every pixel is labeled background.",
        file="data.py",
        named=r"255|ink|FAINT|DARK|threshold|(scale|range|normali[sz])[^.]{0,60}(image|digit|16)|(all|every|only|single|one)[^.]{0,60}(background|class|label)|no (digit|foreground)|labels?[^.]{0,40}(constant|all 0|all zero|only 0)",
    ),
    fault_in(
        name="segmentation moving averages are too slow for the run",
        project="segmentation",
        edits=(
            Edit(
                "model.py",
                "BatchNormalization(momentum=0.9, epsilon=0.1)",
                "BatchNormalization(momentum=0.999, epsilon=0.1)",
            ),
        ),
        kind="model",
        cause="With momentum 0.999 the moving averages of batch normalization keep 73% of their initial mean 0 and variance 1 after the 320 steps of a run, so inference normalizes with wrong statistics.",
        file="model.py",
        named=r"momentum|moving (average|mean|varian|statist)|running (average|mean|statist)|batch.?norm[^.]{0,80}(statist|average|inference|slow|evaluat|validat)|(statist)[^.]{0,60}(batch.?norm|normalization|initial|lag|slow)",
    ),
)

LANGUAGE = (
    fault_in(
        name="language model sees later tokens",
        project="language_model",
        edits=(Edit("model.py", "attention(y, y, use_causal_mask=True)", "attention(y, y)"),),
        kind="leak",
        cause="The self-attention has no causal mask, so each token attends to the next one, which is the target that it shall predict.",
        file="model.py",
        named=r"causal|mask|(future|later|next|following|subsequent)[^.]{0,40}(token|position|character|input)|(leak|see|look|attend)[^.]{0,60}(target|answer|future|ahead|later|next)",
    ),
    fault_in(
        name="language data never trains the last form",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                "form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)",
                "form = tf.random.stateless_uniform((rows,), seed, 0, forms - 1, tf.int32)",
            ),
        ),
        kind="randomness",
        cause="The upper limit of stateless_uniform is exclusive for integers, so forms - 1 never draws the last form of a date (19790503), which is never trained but is in validation and test.",
        file="data.py",
        named=r"forms? ?- ?1|(last|final|one|16th|sixteenth|%Y%m%d)[^.]{0,60}(form|format)|(form|format)s?[^.]{0,80}(never|not|missing|exclu|unseen|omit|skip)|maxval|exclusive|off.by.one|upper (limit|bound)",
    ),
)

GAN = (
    fault_in(
        name="gan images go from minus one to one",
        project="gan",
        edits=(
            Edit(
                "data.py",
                '(load_digits(s)[0] for s in ("train", "validation", "test"))',
                '(2 * load_digits(s)[0] - 1 for s in ("train", "validation", "test"))',
            ),
            Edit(
                "data.py",
                '"""Images float32 (n, 8, 8, 1) in [0, 1]; in evaluation with latents float32 (n, latent).',
                '"""Images float32 (n, 8, 8, 1) in [-1, 1]; in evaluation with latents float32 (n, latent).',
            ),
        ),
        kind="data",
        cause="Real images are scaled to [-1, 1] while the generator ends with a sigmoid in [0, 1] and the metrics' classifier and known images expect [0, 1]: the generator can never match the background of -1.",
        file="data.py",
        named=r"-1|minus one|\[0, ?1\]|sigmoid|tanh|(scale|range|interval|normali[sz])[^.]{0,80}(image|real|generat|pixel|differ|match|data)|(image|real|generat|pixel)[^.]{0,80}(scale|range|interval)",
    ),
    fault_in(
        name="gan latents are uniform in training alone",
        project="gan",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx()), weights\n",
                "        latents = tf.random.stateless_uniform(shape, seed, -1, 1, keras.config.floatx())\n        return images, latents, weights\n",
            ),
        ),
        kind="augmentation",
        cause="Training draws latents uniformly from [-1, 1], evaluation and pictures from a standard normal distribution: the generator is tested on latents of another distribution, mostly outside of what it was trained on.",
        file="data.py",
        named=r"latents?[^.]{0,120}(uniform|normal|gauss|distribut|differ|range|spread|varian|deviation|scale)|(uniform|normal|gauss|distribut)[^.]{0,120}(latent|noise)",
    ),
)

TABULAR = (
    fault_in(
        name="tabular loss compares every label with every prediction",
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
                "        error = (labels[:, 0] - predictions) / LABEL_DEVIATION\n        return tf.reduce_mean(tf.square(error), axis=-1)\n",
            ),
        ),
        kind="loss",
        cause="labels[:, 0] has shape (batch,) and predictions (batch, 1), so their difference broadcasts to (batch, batch) and each prediction is compared with the labels of the whole batch.",
        file="losses.py",
        named=r"broadcast|\(batch, ?batch\)|labels\[:, ?0\]|(batch|n|b) ?(x|by) ?(batch|n|b)\b|(every|each|all|other|whole)[^.]{0,60}(label|prediction|example|pair|row)|shape[^.]{0,60}(label|prediction|mismatch|differ)|(label|prediction)s?[^.]{0,60}(shape|rank)|(mix|depends? on|interact)[^.]{0,40}(example|row|batch|other)",
    ),
    fault_in(
        name="tabular folds overlap",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "np.random.default_rng(SPLIT_SEED).permutation(len(data))",
                "np.random.default_rng(SPLIT_SEED + task.fold).permutation(len(data))",
            ),
        ),
        kind="evaluation",
        cause="Each --fold permutes the rows with a seed of its own, so the five test sets aren't a partition: some rows are tested several times and others never.",
        file="data.py",
        named=r"SPLIT_SEED|task\.fold|folds?[^.]{0,100}(seed|permut|shuffl|overlap|disjoint|partition|order|same row|cover)|(seed|permut|shuffl|overlap|disjoint|partition)[^.]{0,100}fold|cross.?validat",
    ),
    fault_in(
        name="tabular reader takes an empty cell for zero",
        project="tabular_regression",
        edits=(Edit("predictions.py", 'float(row[column] or "nan")', "float(row[column] or 0)"),),
        kind="evaluation",
        cause="predict reads an empty cell of a CSV file as 0 instead of NaN, so the model takes a missing value for a measured 0, many deviations below the mean, and its input for missing values stays 0.",
        file="predictions.py",
        named=r"(empty|missing|blank|absent|gap)[^.]{0,100}(0|zero|nan)|or 0\b|(0|zero)[^.]{0,60}(instead of|not|rather than)[^.]{0,20}(nan|missing)|nan[^.]{0,60}(csv|cell|table)",
    ),
)

CONTRASTIVE = (
    fault_in(
        name="features are normalized over the batch",
        project="contrastive",
        edits=(
            Edit("steps.py", ", axis=1)  # (rows, features)", ", axis=0)  # (rows, features)", "*"),
        ),
        kind="loss",
        cause="l2_normalize runs along axis 0, the rows of the batch, so each feature is scaled over the images rather than each image's vector to length 1: similarities are no cosines and depend on the other images and on the rows of a replica.",
        file="steps.py",
        named=r"axis|l2_normali[sz]e|normali[sz][^.]{0,80}(batch|row|feature|axis|dimension|column|example|image|replica)|cosine|unit (length|norm)|depends? on[^.]{0,40}(other|batch|row|replica)",
    ),
    fault_in(
        name="partners of other replicas are taken for its own",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`",
                "own = tf.range(rows)  # the partner of row i is candidate i",
                "*",
            ),
        ),
        kind="distribution",
        cause="The candidates are gathered from all replicas, but the index of an image's partner lacks the offset replica.index * rows, so every replica but the first pulls its images to the partners of replica 0.",
        file="steps.py",
        named=r"replica\.index|offset|own\b|(replica|device|worker)[^.]{0,100}(index|offset|partner|positive|label|row|first|0\b|wrong|differ|depend)|(partner|positive|label|target|row)s?[^.]{0,100}(replica|gather|offset)",
    ),
)

DISTILLATION = (
    fault_in(
        name="teacher has no temperature",
        project="distillation",
        edits=(
            Edit("steps.py", "tf.nn.softmax(taught / TEMPERATURE)", "tf.nn.softmax(taught)", "*"),
        ),
        kind="loss",
        cause="The student's logits are divided by the temperature but the teacher's are not, so a softened student is fitted to an unsoftened teacher: the minimum of the soft loss isn't at the teacher's logits.",
        file="steps.py",
        named=r"temperature|soften|(teacher|taught)[^.]{0,80}(scale|soft|divid|logit)|(scale|divid)[^.]{0,60}(teacher|taught)",
    ),
    fault_in(
        name="accuracy in evaluation is the teacher's",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, logits, weights)',
                'run.metrics["accuracy"].update_state(labels, taught, weights)',
                "validation_step",
            ),
        ),
        kind="metrics",
        cause="In validation and test the accuracy is that of the teacher's logits, not of the student's.",
        file="steps.py",
        named=r"(accuracy|metric)[^.]{0,120}(teacher|taught|student|model|constant|never changes|same|frozen|doesn't (change|depend))|(teacher|taught)[^.]{0,100}(accuracy|metric|score|evaluat|validat|update_state)",
    ),
)

FINETUNING = (
    fault_in(
        name="pixels are divided by 255 before the backbone",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                "    features = keras.layers.Dropout(task.dropout)(backbone(images))\n",
                "    scaled = keras.layers.Rescaling(1 / 255)(images)\n    features = keras.layers.Dropout(task.dropout)(backbone(scaled))\n",
            ),
        ),
        kind="data",
        cause="The images are already in [0, 1] and a Rescaling layer divides them by 255 once more, so the pretrained backbone, whose normalization is frozen, gets almost black images.",
        file="model.py",
        named=r"255|rescal|twice|again|already|double|(scale|range|normali[sz])[^.]{0,80}(image|pixel|input|backbone|pretrain)|(image|pixel|input)s?[^.]{0,80}(scale|range|small|near 0|tiny|dark|black)",
    ),
    fault_in(
        name="backbone is never frozen",
        project="finetuning",
        edits=(
            Edit(
                "callbacks.py",
                """    return [
        at_step(0, lambda event: set_trainable(event, False)),
        at_step(task.frozen_steps, lambda event: set_trainable(event, True)),
    ]
""",
                """    stages = ((0, False), (task.frozen_steps, True))
    return [
        at_step(step, lambda event: set_trainable(event, trainable)) for step, trainable in stages
    ]
""",
            ),
        ),
        kind="callbacks",
        cause="The lambdas in the comprehension look up `trainable` when they are called, when it is True for both (late binding), so the callback of step 0 doesn't freeze the backbone.",
        file="callbacks.py",
        named=r"late.?bind|closure|lambda|never (frozen|freez)|(not|n't|isn't|doesn't|nothing|no effect)[^.]{0,60}(frozen|freez)|(backbone|layers?|frozen|freez|trainable)[^.]{0,100}(never|from (the )?(first|start|step 0)|both|always|no effect|last value|True)",
    ),
)

FORECASTING = (
    fault_in(
        name="windows are split at random",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                '    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n    names = ("train", "validation", "test")  # in the order of time\n    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}\n',
                '    past, future = _windows(rows)\n    order = np.random.default_rng(0).permutation(len(past))\n    parts = np.split(order, [int(0.7 * len(order)), int(0.85 * len(order))])\n    names = ("train", "validation", "test")\n    return {name: (past[part], future[part]) for name, part in zip(names, parts, strict=True)}\n',
            ),
        ),
        kind="leak",
        cause="Windows overlap in all but one hour, and are made of the whole series before they are split at random, so nearly every hour of the test windows is in training windows too.",
        file="data.py",
        named=r"overlap|leak|random(ly)?[^.]{0,60}(split|order|window)|(shuffl|permut)[^.]{0,80}(window|split|time|series|row|before)|(split|order)[^.]{0,80}(time|chronolog|random)|(same|shared|common)[^.]{0,40}(hour|row|value)|(validation|test)[^.]{0,80}(in|seen in|part of|shared with) (the )?train",
    ),
    fault_in(
        name="first hour to forecast is the last one known",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "windows[:, TARGET, PAST:]",
                "windows[:, TARGET, PAST - 1 : -1]",
            ),
        ),
        kind="labels",
        cause="The labels start at hour PAST - 1, the last hour of the input, instead of PAST: they are shifted by one, so the first value to forecast is in the input and the last of the six hours is never forecast.",
        file="data.py",
        named=r"off.by.one|PAST ?- ?1|shift|overlap|leak|copy|copies|(label|target|future|forecast)s?[^.]{0,100}(input|past|known|contain|already|last hour|one hour|an hour|early)|(input|past)[^.]{0,80}(contain|hold|includ)[^.]{0,40}(label|target|answer|future)|(first|last)[^.]{0,20}(hour|value)",
    ),
)

TWO_HEADS = (
    fault_in(
        name="best weights have the largest digit loss",
        project="two_heads",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_digit_accuracy"',
                'monitor: str = "validation_digit"',
            ),
        ),
        kind="evaluation",
        cause="The monitored column is the loss of the digit head while larger_is_better is still True, so the weights with the largest validation loss are kept as the best.",
        file="config.py",
        named=r"larger_is_better|monitor|(larg|high|great|worst|max)[^.]{0,60}(loss|weights)|direction|best[^.]{0,40}(weights|epoch|row)[^.]{0,60}(worst|first|largest|highest|loss)",
    ),
    fault_in(
        name="label 0 is taken for missing",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "tf.cast(labels[head] >= 0, weights.dtype)",
                "tf.cast(labels[head] > 0, weights.dtype)",
            ),
        ),
        kind="weights",
        cause="A missing label is -1, but the mask labels > 0 leaves out class 0 too: the digit 0 and all odd digits (even = 0) have weight 0 in loss and metrics.",
        file="losses.py",
        named=r"> ?0|>= ?0|(class|label|digit|zero|value) ?(0|zero)\b|\b(zero|0)s?\b[^.]{0,60}(mask|weight|missing|dropp|ignor|exclud|left out|never|not)|\bodd\b|(mask|missing|weight|ignor|exclud)[^.]{0,60}(class 0|label 0|zero|0\b)|(one|single|only)[^.]{0,30}(class|label)|(class|label)[^.]{0,50}(never|not|n't)[^.]{0,20}(train|learn|count|seen)",
    ),
)

VAE = (
    fault_in(
        name="squared error is a mean over pixels",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
            ),
        ),
        kind="loss",
        cause="The squared error is averaged over the 64 pixels while the KL divergence is summed over the code, so the KL term weighs 64 times too much.",
        file="losses.py",
        named=r"reduce_mean|mean[^.]{0,60}pixel|averag[^.]{0,60}pixel|pixel[^.]{0,60}(mean|averag|sum)|collaps|(kl|divergence)[^.]{0,80}(domina|weigh|too (large|strong|much)|outweigh|64|scale|balance)|(reconstruction|squared error|error)[^.]{0,80}(mean|averag|sum|scale|too small|64|weigh)",
    ),
    fault_in(
        name="decoder is regularized once per replica",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "loss += tf.nn.scale_regularization_loss(replica.regularization(decoder))",
                "loss += replica.regularization(decoder)",
                "*",
            ),
        ),
        kind="distribution",
        cause="The decoder's regularization is added without scale_regularization_loss, and the losses of the replicas are summed, so it counts once for each replica.",
        file="steps.py",
        named=r"scale_regularization_loss|regulari[sz][^.]{0,120}(replica|device|scale|times|once|divid|number|N\b)|(replica|device)[^.]{0,120}regulari[sz]|\bl2\b[^.]{0,80}(replica|times|device)",
    ),
)

FAULTS: tuple[Fault, ...] = (
    *IMAGE,
    *SEGMENTATION,
    *LANGUAGE,
    *GAN,
    *TABULAR,
    *CONTRASTIVE,
    *DISTILLATION,
    *FINETUNING,
    *FORECASTING,
    *TWO_HEADS,
    *VAE,
)

TASKS: tuple[Change, ...] = ()
