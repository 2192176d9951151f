"""Faults of an examiner in tasks of owners, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

CONTRASTIVE = (
    fault_in(
        name="features normalized over the batch",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "run.model(left, training=True), axis=1)",
                "run.model(left, training=True), axis=0)",
            ),
            Edit(
                "steps.py",
                "run.model(right, training=True), axis=1)",
                "run.model(right, training=True), axis=0)",
            ),
            Edit(
                "steps.py",
                "run.model(left, training=False), axis=1)",
                "run.model(left, training=False), axis=0)",
            ),
            Edit(
                "steps.py",
                "run.model(right, training=False), axis=1)",
                "run.model(right, training=False), axis=0)",
            ),
        ),
        kind="model",
        cause="l2_normalize runs over axis 0, the batch, and not over the features of each example, so the similarities are no cosines "
        "and each example's embedding depends on the others of its batch and on the batch size.",
        file="steps.py",
        named=r"normali[sz]\w*.{0,80}(axis|batch|features?|wrong)|(axis ?=? ?0|axis 0).{0,80}(normali|features?|batch)|not (unit|cosine)|unit (length|norm)|"
        r"(embedding|feature|output|example|row|prediction)s?.{0,60}depends? on (the )?(other|rest|batch)",
    ),
    fault_in(
        name="one noise pattern for all images of a split",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                "random.normal(0, 0.4, images.shape)",
                "random.normal(0, 0.4, images.shape[1:])",
            ),
        ),
        kind="randomness",
        cause="The noise is drawn with the shape of one image and broadcast, so all images of a split have the same noise instead of a draw each.",
        file="data.py",
        named=r"(same|identical|single|one|shared|constant|common).{0,40}(noise|pattern|perturbation|draw)|noise.{0,80}(same|identical|shared|broadcast|once|"
        r"every image|all images|each example|per (image|example)|shape)|differs? from .{0,40}by the same",
    ),
    fault_in(
        name="negatives of the own replica only",
        project="contrastive",
        edits=tuple(
            Edit(
                "steps.py",
                "    candidates = replica.all_gather(right)  # (rows of all replicas, features)\n"
                "    there = replica.all_gather(weights) > 0  # (rows of all replicas,), False for padding\n"
                "    similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE\n"
                "    logits = tf.where(there, similarity, -1e9)  # (rows, rows of all replicas)\n"
                "    rows = left.shape[0]\n"
                "    own = replica.index * rows + tf.range(rows)  # where this replica's rows are in `candidates`\n",
                "    similarity = tf.matmul(left, right, transpose_b=True) / TEMPERATURE\n"
                "    logits = tf.where(weights > 0, similarity, -1e9)  # (rows, rows), without padding\n"
                "    own = tf.range(left.shape[0])  # the diagonal\n",
                where=step,
            )
            for step in ("train_step", "validation_step")
        ),
        kind="distribution",
        cause="The candidates aren't gathered over the replicas: each replica compares its rows with its own part of the batch only, so the loss "
        "has fewer negatives the more replicas there are.",
        file="steps.py",
        named=r"all_gather|gather|negatives?|candidates?|(number of|several|more|one|two|\d) replicas?|per[- ]replica|local(ly)? (batch|rows)|(depends?|differs?|changes?).{0,60}replicas?",
    ),
    fault_in(
        name="validation without normalization of the features",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "    left = tf.math.l2_normalize(run.model(left, training=False), axis=1)  # (rows, features)\n"
                "    right = tf.math.l2_normalize(run.model(right, training=False), axis=1)  # (rows, features)\n",
                "    left = run.model(left, training=False)  # (rows, features)\n"
                "    right = run.model(right, training=False)  # (rows, features)\n",
            ),
        ),
        kind="evaluation",
        cause="Validation and test compare raw features by their dot product, while training compares l2-normalized ones: the normalization is missing "
        "in validation_step.",
        file="steps.py",
        named=r"(l2_)?normali[sz]|unit (length|norm)|cosine|(validation|test|evaluation)(_step)?.{0,80}(differ|other|not the same|unlike|disagree|another).{0,60}train|"
        r"train(_step|ing)?.{0,80}(differ|other|not the same|unlike|disagree|another).{0,60}(validation|test|evaluation)",
    ),
)

VAE = (
    fault_in(
        name="reconstruction error averaged over the pixels",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "return tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
            ),
        ),
        kind="loss",
        cause="The squared error is a mean over the pixels while the KL divergence is a sum over the code, so the KL term weighs 64 times too much "
        "against the reconstruction and the posterior collapses.",
        file="losses.py",
        named=r"(reduce_)?mean.{0,80}(pixel|axis|reconstruction|error|sum|KL)|(sum|mean).{0,60}(over|of) (the )?pixels|posterior collapse|collaps|"
        r"KL.{0,80}(dominat|outweigh|too (much|large|strong)|weigh|scale|near 0|almost 0|0\.0)|(ignores?|doesn't use|does not depend on).{0,40}(code|latent|input)",
    ),
    fault_in(
        name="cross-entropy of logits on a sigmoid",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "    def squares(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:\n"
                '        """The squared error of each image, (batch,)."""\n'
                "        return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])\n"
                "\n"
                '    return {"main": squares}\n',
                "    def entropy(images: tf.Tensor, decoded: tf.Tensor) -> tf.Tensor:\n"
                '        """The cross-entropy of each image, a Bernoulli for each pixel, (batch,)."""\n'
                "        each = tf.nn.sigmoid_cross_entropy_with_logits(labels=images, logits=decoded)\n"
                "        return tf.reduce_sum(each, axis=[1, 2, 3])\n"
                "\n"
                '    return {"main": entropy}\n',
            ),
        ),
        kind="model",
        cause="The decoder ends in a sigmoid and the loss takes its output as logits and applies the sigmoid once more, so the modelled probability of a pixel "
        "is only between 0.5 and 0.73.",
        file="losses.py",
        named=r"(double|twice|two|second|another|already|both).{0,60}sigmoid|sigmoid.{0,80}(twice|double|again|already|once more|logits|with_logits|loss|entropy|activation)|"
        r"logits.{0,80}(sigmoid|probabilit|\[0, 1\]|between 0 and 1|activation)|from_logits",
    ),
    fault_in(
        name="warm-up of the kl term in validation",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "    loss = compute_loss(error + kl, weights, encoder, replica)\n",
                "    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)\n"
                "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)\n",
                where="validation_step",
            ),
        ),
        kind="evaluation",
        cause="validation_step weighs the KL divergence with the warm-up of replica.step, which in evaluation is the number of the batch and no train step, "
        "so the KL term hardly counts in the validation and test loss.",
        file="steps.py",
        named=r"warm[- _]?up|replica\.step|anneal|(number|index|position|order) of (the )?batch|KL.{0,80}(validation|evaluation|test|weigh|hardly|missing)|"
        r"(validation|evaluation|test).{0,80}(KL|step)|error \+ kl",
    ),
    fault_in(
        name="log variance taken for a log standard deviation",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)",
                "decoder(mean + tf.exp(log_variance) * noise, training=True)",
            ),
        ),
        kind="model",
        cause="The code is sampled with exp(log_variance), the variance, as its standard deviation, while kl_divergence takes the same number as a log variance; "
        "it must be exp(0.5 * log_variance).",
        file="steps.py",
        named=r"log[_ -]?var\w*|variance.{0,80}(deviation|std|noise|sampl|half|exp)|exp\(0\.5|standard deviation|\bstd\b|reparam\w*",
    ),
)

FORECASTING = (
    fault_in(
        name="missing values read as zero degrees",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                '    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)\n',
                '    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)\n'
                "    rows = np.nan_to_num(rows)\n",
            ),
            Edit(
                "data.py",
                "labels float32 (n, FUTURE); NaN where missing.",
                "labels float32 (n, FUTURE); 0 where missing.",
            ),
        ),
        kind="data",
        cause="Missing values are filled with 0 before the windows are made, so the mask, which looks for NaN, is never set: 0 degrees are trained on, "
        "evaluated as labels, fed as inputs and counted in mean and standard deviation.",
        file="data.py",
        named=r"nan_to_num|missing|NaN|(filled|replaced|read|imput\w*).{0,40}(0|zero)|zeros?\b.{0,60}(label|value|fill|mask|temperature|outlier)|mask|outlier",
    ),
    fault_in(
        name="metrics without the weights of the values",
        project="forecasting",
        edits=(
            Edit(
                "steps.py",
                'run.metrics[f"mae_{hour}"].update_state(absolute, weights[:, hour - 1])',
                'run.metrics[f"mae_{hour}"].update_state(absolute)',
            ),
        ),
        kind="metrics",
        cause="The mean absolute errors are updated without weights, so padding of the last batch and missing labels, whose error is set to 0, count as perfect forecasts.",
        file="steps.py",
        named=r"sample_weight|(without|ignor\w*|no|lacks?|needs?|takes?|given) .{0,30}weights?\b|weights?.{0,60}(ignored|missing|metric|mae)|padd(ing|ed)|mask|missing (label|value)|update_state",
    ),
    fault_in(
        name="labels start with the last known hour",
        project="forecasting",
        edits=(Edit("data.py", "windows[:, TARGET, PAST:]", "windows[:, TARGET, PAST - 1 : -1]"),),
        kind="labels",
        cause="The labels are off by one hour: they begin with the last hour of the input, so the first value to forecast is given to the model and the sixth hour ahead is never forecast.",
        file="data.py",
        named=r"off[- ]by[- ]one|shift(ed)?|overlap|last (hour|value|row|step|input|known)|(label|target|future|answer)s?.{0,80}(input|past|contained|copy|copied|same|in the|found|given|seen)|"
        r"(input|past)s?.{0,80}(label|target|future|answer)|PAST - 1|leak",
    ),
    fault_in(
        name="centered smoothing before the windows",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                "PAST, FUTURE = 24, 6  # hours\nSMOOTH = 2  # hours on each side, against the noise of the sensors\n",
            ),
            Edit(
                "data.py",
                "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n",
                '    padded = np.pad(rows, ((SMOOTH, SMOOTH), (0, 0)), mode="edge")\n'
                "    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * SMOOTH + 1, axis=0)\n"
                "    rows = np.nanmean(around, axis=-1)  # (hours, columns)\n"
                "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n",
            ),
        ),
        kind="leak",
        cause="The whole series is smoothed with a centered moving average before it is cut into past and future, so the last inputs contain the hours to forecast, "
        "and labels are smoothed (and filled) too.",
        file="data.py",
        named=r"smooth|moving average|rolling|cent(er|re)d|leak|(look|see|contain|know|mix|use)\w*.{0,40}(future|ahead|later|next hour|following)|future.{0,60}(input|past)|"
        r"(input|past).{0,60}(future|label|following)|nanmean",
    ),
)

FINETUNING = (
    fault_in(
        name="images rescaled a second time",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                "    features = keras.layers.Dropout(task.dropout)(backbone(images))\n",
                "    scaled = keras.layers.Rescaling(1 / 255)(images)\n"
                "    features = keras.layers.Dropout(task.dropout)(backbone(scaled))\n",
            ),
        ),
        kind="data",
        cause="The model divides by 255 images that data.py already gives in [0, 1], so the pretrained backbone, with its frozen normalization, sees inputs below 0.004, "
        "almost black images.",
        file="model.py",
        named=r"rescal\w*|255|scaled? (twice|again)|twice|(input|image|pixel)s?.{0,60}(scale|range|tiny|small|magnitude|\[0, 1\])|(scale|range) of (the )?(input|image|pixel)|"
        r"(insensitive|hardly|barely|almost).{0,60}(input|image|differ|depend)",
    ),
    fault_in(
        name="weights selected on the test images",
        project="finetuning",
        edits=(
            Edit(
                "data.py",
                "    return {\n"
                '        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))\n'
                "        for split, (images, labels) in splits.items()\n"
                "    }\n",
                "    arrays = {\n"
                '        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))\n'
                "        for split, (images, labels) in splits.items()\n"
                "    }\n"
                '    parts = zip(arrays["train"], arrays["validation"], strict=True)\n'
                "    train = tuple(map(np.concatenate, parts))\n"
                '    return {"train": train, "validation": arrays["test"], "test": arrays["test"]}\n',
                where="create_datasets",
            ),
        ),
        kind="leak",
        cause="The validation split is the test split, so the best weights are selected on the very images on which the test accuracy is reported.",
        file="data.py",
        named=r"(validation|test).{0,80}(same|identical|equal|share|overlap|also in|duplicate|contain|are in|both)|(same|identical|share|overlap|duplicate|common).{0,80}(validation|test)|"
        r"leak|select\w*.{0,40}test|test.{0,60}select",
    ),
    fault_in(
        name="gradients scaled before adam",
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
                '    """One gradient for each of `variables`, the same on every replica."""\n    return gradients\n',
                '    """One gradient for each of `variables`, the same on every replica: a tenth for the backbone."""\n'
                "    pairs = zip(gradients, variables, strict=True)\n"
                '    return [g if v.path.startswith("logits/") else 0.1 * g for g, v in pairs]\n',
            ),
        ),
        kind="optimizer",
        cause="The backbone's gradients are scaled by 0.1 so that it learns ten times slower, but Adam divides by the gradients' own size, so the factor has no effect "
        "and the backbone trains at the full learning rate.",
        file="optimizer.py",
        named=r"scale[- ]invarian\w*|invariant|Adam.{0,100}(scal|factor|cancel|divid|no effect|nothing|normali|0\.1|magnitude)|(scal\w*|factor|multipl\w*|0\.1).{0,100}(gradients?.{0,60})?(Adam|no effect|cancel|nothing|learning rate)|"
        r"process_gradients.{0,100}(no effect|nothing|cancel|scal|Adam|factor)",
    ),
    fault_in(
        name="padding counts as examples",
        project="finetuning",
        edits=(
            Edit(
                "losses.py",
                "    return tf.math.count_nonzero(weights, dtype=tf.int32)\n",
                "    return tf.size(weights)\n",
            ),
        ),
        kind="weights",
        cause="count returns the number of rows, and so counts the padding of a short last batch as examples: losses of evaluation are divided by too much.",
        file="losses.py",
        named=r"padd(ing|ed)|\bcount\b|tf\.size|weights? (of |is |are )?(0|zero)|denominator|global_count",
    ),
)

TWO_HEADS = (
    fault_in(
        name="dropout in validation",
        project="two_heads",
        edits=(
            Edit(
                "steps.py",
                "run.model(images, training=False)",
                "run.model(images, training=True)",
                where="validation_step",
            ),
        ),
        kind="evaluation",
        cause="validation_step, which the test uses too, calls the model with training=True, so dropout is active in evaluation.",
        file="steps.py",
        named=r"training ?= ?True|dropout|training mode|(random|not deterministic|seed|vary|varies).{0,60}(evaluat|validation)|(evaluat|validation)\w*.{0,60}(random|seed|not deterministic|in training)",
    ),
    fault_in(
        name="class 0 read as a missing label",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "tf.cast(labels[head] >= 0, weights.dtype)",
                "tf.cast(labels[head] > 0, weights.dtype)",
            ),
        ),
        kind="weights",
        cause="The mask of known labels is labels > 0, which leaves out class 0 as if it were missing (-1): zeros and odd digits have weight 0 in loss and metrics.",
        file="losses.py",
        named=r"(class|label|digit)s? (of )?(0|zero)|> ?0|>= ?0|(0|zero|odd)\b.{0,60}(ignored|masked|left out|missing|never|weight|dropped|excluded)|mask|weights? (of )?(0|zero)|never (trained|counted)|"
        r"left out|weights_of_heads",
    ),
    fault_in(
        name="parity of hidden digits",
        project="two_heads",
        edits=(
            Edit(
                "data.py",
                '    digits = digits.astype("int64")\n'
                "    return {\n"
                '        "digit": np.where(rows % 6 == 5, -1, digits),\n',
                '    digits = np.where(rows % 6 == 5, -1, digits.astype("int64"))  # -1: not known\n'
                "    return {\n"
                '        "digit": digits,\n',
            ),
        ),
        kind="labels",
        cause="The label of the even head is computed from the digits after unknown ones were set to -1, and -1 % 2 is 1, so each image whose digit is hidden is labelled odd.",
        file="data.py",
        named=r"-1|parity|(even|odd).{0,80}(wrong|label|hidden|missing|unknown|masked|disagree|contradict|noise|always|computed)|(missing|hidden|unknown|masked).{0,80}(even|odd|digit)|"
        r"(wrong|noisy|contradict\w*|inconsistent|mislabel\w*).{0,40}label|label.{0,40}(noise|wrong|contradict|inconsistent)|mislabel",
    ),
    fault_in(
        name="one metric object for both heads",
        project="two_heads",
        edits=(
            Edit(
                "metrics.py",
                '    return {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}\n',
                '    names = [f"{head}_accuracy" for head in HEADS]\n'
                "    return dict.fromkeys(names, keras.metrics.SparseCategoricalAccuracy())\n",
            ),
        ),
        kind="metrics",
        cause="dict.fromkeys gives both names the same metric object, so both heads update it and digit_accuracy and even_accuracy are one number, mixed over both.",
        file="metrics.py",
        named=r"(same|one|shared?|single|identical).{0,60}(metric|object|instance|accurac|number|value|variable)|metrics?.{0,80}(same|shared?|identical|equal|mixed|both)|fromkeys|"
        r"digit_accuracy.{0,60}even_accuracy",
    ),
)

DISTILLATION = (
    fault_in(
        name="soft loss without the squared temperature",
        project="distillation",
        edits=(
            Edit("steps.py", "(1 - HARD) * TEMPERATURE**2 * soft", "(1 - HARD) * soft", where="*"),
        ),
        kind="loss",
        cause="The soft loss isn't multiplied by TEMPERATURE squared, so its gradients are smaller by 1 / T^2 and HARD = 0.5 is no balance of both.",
        file="steps.py",
        named=r"temperature ?(\*\*|\^) ?2|T ?(\*\*|\^) ?2|T²|square[d]?( of)?( the)? temperature|temperature.{0,60}(squared?|scale|compensat|gradient|factor|weight|balance)|"
        r"(soft|teacher|distill)\w*.{0,80}(too (small|weak|little)|weight|squared?|1 ?/ ?T|quarter|scale)",
    ),
    fault_in(
        name="decay steps counted in epochs",
        project="distillation",
        edits=(
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nEPOCHS = 40  # of a run\n",
            ),
            Edit(
                "optimizer.py",
                "CosineDecay(task.learning_rate, decay_steps=steps)",
                "CosineDecay(task.learning_rate, decay_steps=EPOCHS)",
            ),
        ),
        kind="schedule",
        cause="The cosine schedule gets the number of epochs, 40, as decay_steps, which Keras counts in train steps, so the learning rate is 0 after 40 of 480 steps.",
        file="optimizer.py",
        named=r"decay_steps|learning rate.{0,80}(0|zero|early|end|over|soon|decay|step|epoch)|schedule|epochs?.{0,60}steps?|cosine",
    ),
    fault_in(
        name="student and teacher swapped in the soft loss",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                'run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)',
                'run.losses["soft"](tf.nn.softmax(logits / TEMPERATURE), taught / TEMPERATURE)',
                where="*",
            ),
        ),
        kind="loss",
        cause="The arguments of the soft cross-entropy are swapped: the student's softmax is the target and the teacher's logits are the prediction, so the loss is least "
        "when the student puts all probability on the teacher's first class.",
        file="steps.py",
        named=r"swap\w*|revers\w*|order of (the )?arguments|arguments?|(student|logits).{0,80}(as (the )?(target|label|y_true)|is the (target|label)|target)|(teacher|taught).{0,80}(as (the )?(prediction|logits|y_pred)|prediction)|"
        r"y_true|direction of the (KL|divergence)|gradient.{0,60}(label|target|y_true)|(label|target)s?.{0,60}(depend|gradient|student|model's own)",
    ),
    fault_in(
        name="weight of the labels changed behind the graph",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                "TEMPERATURE, HARD = 2.0, 0.5  # HARD: how much of the loss comes from the labels",
                "TEMPERATURE, HARD = 2.0, 0.1  # HARD: how much of the loss comes from the labels, at first",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                "from ..engine.callbacks import Callback, Event, every_epochs\nfrom . import steps\nfrom .config import TaskConfig\n",
            ),
            Edit(
                "callbacks.py",
                '    """Functions called between steps: they can save, stop, freeze layers or set learning rates.\n\n    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in\n    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.\n    """\n    return []\n',
                '    """Let the labels count more with each epoch, from 0.1 to 0.9 within the first 20."""\n'
                "\n"
                "    def anneal(event: Event) -> None:\n"
                "        steps.HARD = min(0.1 + 0.04 * event.epoch, 0.9)\n"
                "\n"
                "    return [every_epochs(1, anneal)]\n",
            ),
        ),
        kind="callbacks",
        cause="The callback sets the Python number steps.HARD, which train_step has read when it was traced into a graph, so the new values never reach training; it must be "
        "computed from replica.step or be held in a variable.",
        file="callbacks.py",
        named=r"\btrac(ed|ing|e)\b|retrac|\bHARD\b|(python|module|global).{0,60}(number|value|variable|constant|state|attribute)|baked|frozen into the graph|(constant|old value).{0,40}graph|anneal",
    ),
)

FAULTS: tuple[Fault, ...] = (
    *CONTRASTIVE,
    *VAE,
    *FORECASTING,
    *FINETUNING,
    *TWO_HEADS,
    *DISTILLATION,
)

TASKS: tuple[Change, ...] = ()
