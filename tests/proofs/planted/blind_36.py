"""Faults of an examiner in tasks of owners, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

CONTRASTIVE = (
    fault_in(
        name="similarity multiplied by the temperature",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "similarity = tf.matmul(left, candidates, transpose_b=True) / TEMPERATURE",
                "similarity = tf.matmul(left, candidates, transpose_b=True) * TEMPERATURE",
                "*",
            ),
        ),
        kind="loss",
        cause="The cosine similarities are multiplied by the temperature 0.1 instead of divided by it, so the logits lie in [-0.1, 0.1] and the softmax is nearly uniform.",
        file="steps.py",
        named=r"multipl\w*[^.]*temperature|temperature[^.]*(multipl|instead of divid|not divid|rather than divid|should divide|invert|wrong way|100 times)|\* TEMPERATURE|logits?[^.]*(too small|scale|-?0\.1\b)|softmax[^.]*(flat|uniform)|(nearly|almost) uniform",
    ),
    fault_in(
        name="trained on the images of all splits",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                "    random = np.random.default_rng(0)\n",
                '    arrays["train"] = np.concatenate(list(arrays.values()))\n    random = np.random.default_rng(0)\n',
            ),
        ),
        kind="leak",
        cause="The training split is the concatenation of train, validation and test, so the images of validation and test are trained on.",
        file="data.py",
        named=r"leak|(validation|test)[^.]*(images|examples|rows|data|split)?[^.]*(are|is|also|occur|appear|contained|included)[^.]*(in )?train|train\w*[^.]*(contain|include|hold|has|have|on|of)[^.]*(validation|test|all splits|every split)|overlap|contaminat|concatenat[^.]*split|share[^.]*(images|examples|rows)|duplicate",
    ),
    fault_in(
        name="way back sees own replica only",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "    per_example = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)\n",
                "    forth = tf.nn.sparse_softmax_cross_entropy_with_logits(own, logits)  # (rows,)\n"
                "    backward = tf.matmul(right, left, transpose_b=True) / TEMPERATURE  # (rows, rows)\n"
                "    backward = tf.where(weights > 0, backward, -1e9)\n"
                "    back = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(rows), backward)\n"
                "    per_example = 0.5 * (forth + back)  # (rows,)\n",
                "*",
            ),
        ),
        kind="distribution",
        cause="In the symmetric loss the direction right to left compares with the left views of this replica only, which aren't gathered, so its number of negatives depends on the number of replicas.",
        file="steps.py",
        named=r"(back|right|symmetr|second|other|reverse)[^.]*(not|n't|without|only|never)[^.]*(gather|local|replica)|gather|local negatives|(this|own|one|each|per)[- ]replica('s)?[^.]*(only|negatives|candidates|rows)|negatives?[^.]*replica|depends? on the number of replicas|replicas? (train|give|differ)|number of replicas",
    ),
    fault_in(
        name="one noise for all images",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                "noise = random.normal(0, 0.4, images.shape)",
                "noise = random.normal(0, 0.4, images.shape[1:])",
            ),
        ),
        kind="randomness",
        cause="The noise is drawn in the shape of one image and broadcast, so all images of a split have the very same noise.",
        file="data.py",
        named=r"(same|one|single|identical|shared|constant|fixed)[^.]*noise|noise[^.]*(same|identical|shared|broadcast|shape of one|once per split|fixed|constant|every image|each image|not (drawn )?per)|shape\[1:\]|broadcast",
    ),
)

DISTILLATION = (
    fault_in(
        name="student and teacher exchanged in the soft loss",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                'run.losses["soft"](tf.nn.softmax(taught / TEMPERATURE), logits / TEMPERATURE)',
                'run.losses["soft"](tf.nn.softmax(logits / TEMPERATURE), taught / TEMPERATURE)',
                "*",
            ),
        ),
        kind="loss",
        cause="The arguments of the soft cross-entropy are in the wrong order: the student's probabilities are the labels and the teacher's logits the predictions.",
        file="steps.py",
        named=r"swap|order of (the )?arguments|arguments?[^.]*(wrong|revers|order|exchang|interchang)|revers\w*[^.]*(kl|cross|argument|teacher|student)|student[^.]*(as|is|are|for) (the )?(target|label|truth|y_true)|teacher[^.]*(as|is|are|for) (the )?(prediction|y_pred|logits of)|gradient[^.]*(through|into)[^.]*(target|label)|targets?[^.]*(depend|come|made|from|of)[^.]*student|wrong way (a)?round|exchanged",
    ),
    fault_in(
        name="accuracy against the teacher",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, logits, weights)',
                'run.metrics["accuracy"].update_state(tf.argmax(taught, axis=1), logits, weights)',
                "validation_step",
            ),
        ),
        kind="metrics",
        cause="In validation and test the accuracy compares the student with the teacher's classes, not with the labels.",
        file="steps.py",
        named=r"teacher[^.]*(prediction|class|argmax|output|answer|as (the )?label|instead of[^.]*label)|agree\w*|(not|n't|without|ignor\w*|instead of)[^.]*labels|labels?[^.]*(not used|unused|ignored|no effect|don't|doesn't|never)|accuracy[^.]*(against|compared? with|relative to|of)[^.]*teacher|argmax",
    ),
    fault_in(
        name="restarts end at a high rate",
        project="distillation",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
                "    schedule = keras.optimizers.schedules.CosineDecayRestarts(\n"
                "        task.learning_rate, first_decay_steps=max(1, steps // 4)\n"
                "    )\n",
            ),
        ),
        kind="schedule",
        cause="With t_mul=2 by default the periods are 1/4, 2/4 and 4/4 of the run, so the third has just begun when the run ends, at 85% of the largest learning rate instead of 0.",
        file="optimizer.py",
        named=r"restart|t_mul|(learning[_ -]rate|schedule|rate)[^.]*(end|last|final|finish)\w*[^.]*(high|large|not 0|not zero|near|at|far|0\.85|85|above)|(never|doesn't|not|n't)[^.]*(decay|reach|fall|come down)\w*[^.]*(0|zero|end|low)|ends? (in the middle|with|at)",
    ),
)

FINETUNING = (
    fault_in(
        name="slow and fast rates swapped",
        project="finetuning",
        edits=(
            Edit(
                "optimizer.py",
                'lambda v: fast if v.path.startswith("logits/") else slow',
                'lambda v: slow if v.path.startswith("logits/") else fast',
            ),
        ),
        kind="optimizer",
        cause="The optimizers are assigned the wrong way round: the new head has the small constant rate of 2e-4 and the pretrained backbone the large one of 2e-3.",
        file="optimizer.py",
        named=r"swap|exchang|(wrong|other) way (a)?round|revers|invert|backbone[^.]*(fast|large|high|2e-3|0\.002|ten times|10 ?(x|times)|schedule)|(head|logits|last layer|new layer)[^.]*(slow|small|low|2e-4|0\.0002)|(slow|fast)[^.]*(backbone|logits|head)|mixed up",
    ),
    fault_in(
        name="digits turned upside down",
        project="finetuning",
        edits=(
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        turned = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed + 1) < 0.5\n"
                "        return tf.where(turned, tf.reverse(images, axis=[1, 2]), images), labels, weights\n",
            ),
        ),
        kind="augmentation",
        cause="The augmentation turns half of the images by 180 degrees, which makes a 6 a 9 and the other way round, while the label stays.",
        file="data.py",
        named=r"(6|six)[^.]*(9|nine)|upside|180|rotat|revers|flip|mirror|turn(s|ed)?\b|orientation|augment\w*[^.]*(label|class)",
    ),
    fault_in(
        name="thawed layers are forgotten on resume",
        project="finetuning",
        edits=(
            Edit(
                "config.py",
                "frozen_steps: int = 7  # steps in which the last layer trains alone",
                "frozen_steps: int = 120  # steps after which one more layer of the backbone trains",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback, Event, at_step\n",
                "from ..engine.callbacks import Callback, Event, at_step, every_steps\n",
            ),
            Edit(
                "callbacks.py",
                "\n# TODO(9): functions",
                "\ndef _layers(event: Event) -> list[keras.layers.Layer]:\n"
                '    """Those of the backbone that are trained at some time, the last one first."""\n'
                '    layers = reversed(event.run.model.get_layer("backbone").layers)\n'
                "    normalization = keras.layers.BatchNormalization\n"
                "    return [x for x in layers if x.weights and not isinstance(x, normalization)]\n"
                "\n\n"
                "class Thaw:\n"
                '    """Lets one more layer of the backbone train each time that it is called."""\n'
                "\n"
                "    def __init__(self) -> None:\n"
                "        self.thawed = 0\n"
                "\n"
                "    def __call__(self, event: Event) -> None:\n"
                "        self.thawed += 1\n"
                "        for i, layer in enumerate(_layers(event)):\n"
                "            layer.trainable = i < self.thawed\n"
                "\n\n"
                "# TODO(9): functions",
            ),
            Edit(
                "callbacks.py",
                '    """Train the last layer alone for --frozen-steps steps, then everything."""\n'
                "\n"
                "    def set_trainable(event: Event, trainable: bool) -> None:\n"
                '        for layer in event.run.model.get_layer("backbone").layers:\n'
                "            if not isinstance(layer, keras.layers.BatchNormalization):\n"
                "                layer.trainable = trainable\n"
                "\n"
                "    return [\n"
                "        at_step(0, lambda event: set_trainable(event, False)),\n"
                "        at_step(task.frozen_steps, lambda event: set_trainable(event, True)),\n"
                "    ]\n",
                '    """Train the last layer alone, then one more after each --frozen-steps steps."""\n'
                "\n"
                "    def freeze(event: Event) -> None:\n"
                "        for layer in _layers(event):\n"
                "            layer.trainable = False\n"
                "\n"
                "    return [at_step(0, freeze), every_steps(task.frozen_steps, Thaw())]\n",
            ),
        ),
        kind="state",
        cause="Thaw counts its calls in an attribute and has no get_state and set_state, so after a resume it counts from 0 again and freezes layers that trained already.",
        file="callbacks.py",
        named=r"get_state|set_state|resum\w*|restart\w*|checkpoint|(count|thawed|state)[^.]*(lost|not saved|isn't saved|forgot|from 0|from zero|again)|freez\w* again|re-?fr(ee|o)z",
    ),
    fault_in(
        name="shifted copies in other splits",
        project="finetuning",
        edits=(
            Edit(
                "data.py",
                "    return {\n"
                '        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))\n'
                "        for split, (images, labels) in splits.items()\n"
                "    }\n",
                '    images = np.concatenate([images for images, _ in splits.values()]).astype("float32")\n'
                '    labels = np.concatenate([labels for _, labels in splits.values()]).astype("int64")\n'
                "    images = np.concatenate([images, np.roll(images, 1, axis=2)])[..., np.newaxis]\n"
                "    labels = np.concatenate([labels, labels])\n"
                "    order = np.random.default_rng(0).permutation(len(labels))\n"
                "    ends = [int(0.7 * len(order)), int(0.85 * len(order))]\n"
                "    parts = zip(splits, np.split(order, ends), strict=True)\n"
                "    return {split: (images[rows], labels[rows]) for split, rows in parts}\n",
            ),
        ),
        kind="leak",
        cause="Each image gets a shifted copy before the splits are drawn at random, so an image and its copy are often in different splits: most of validation and test has a twin in training.",
        file="data.py",
        named=r"leak|(cop(y|ies)|twin|duplicate|shifted|rolled|near-?duplicate|same image|augmented)[^.]*(split|train|validation|test|before)|before[^.]*(split|divid)|(split|divid)\w*[^.]*after|overlap|contaminat|np\.roll|artificial",
    ),
)

FORECASTING = (
    fault_in(
        name="last past hour is also the first to forecast",
        project="forecasting",
        edits=(Edit("data.py", "windows[:, TARGET, PAST:]", "windows[:, TARGET, PAST - 1 : -1]"),),
        kind="labels",
        cause="The labels begin an hour too early: the first hour to forecast is the last hour of the inputs.",
        file="data.py",
        named=r"off[- ]by[- ]one|(one|an|1) (hour|step|row)[^.]*(early|late|off|shift|overlap)|overlap|(first|label)[^.]*(is|are|equal|in|contain|cop)[^.]*(last|input|past)|last[^.]*(input|past|hour)[^.]*(label|first|target)|leak|PAST - 1|shifted",
    ),
    fault_in(
        name="missing hours are zero degrees",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n",
                "    rows = np.nan_to_num(rows)\n    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]\n",
            ),
            Edit(
                "data.py",
                "labels float32 (n, FUTURE); NaN where missing.",
                "labels float32 (n, FUTURE); 0 where missing.",
            ),
        ),
        kind="data",
        cause="Missing values become 0 before anything looks for NaN, so they count as labels of 0 degrees and as real inputs, and the mask is never used.",
        file="data.py",
        named=r"nan_to_num|missing[^.]*(0|zero|label|value|count|real|there|fill|mask)|(0|zero)[^.]*missing|NaN[^.]*(0|zero|never|replac|fill|gone|no longer|remov)|mask[^.]*(never|no|empty|unused|nothing)|imput",
    ),
    fault_in(
        name="smoothing looks an hour ahead",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                "PAST, FUTURE = 24, 6  # hours\nKERNEL = np.ones(3, np.float32) / 3  # smooths the inputs\n",
            ),
            Edit(
                "data.py",
                "    windows = np.lib.stride_tricks.sliding_window_view(rows, PAST + FUTURE, axis=0)\n"
                "    return windows[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]\n",
                '    smooth = np.apply_along_axis(lambda column: np.convolve(column, KERNEL, "same"), 0, rows)\n'
                "    view = np.lib.stride_tricks.sliding_window_view\n"
                "    past = view(smooth, PAST + FUTURE, axis=0)[:, :, :PAST].swapaxes(1, 2)\n"
                "    return past, view(rows, PAST + FUTURE, axis=0)[:, TARGET, PAST:]\n",
            ),
        ),
        kind="leak",
        cause="The inputs are smoothed by a centered mean of three hours over the whole series, so the last hour of the past holds a third of the first hour to forecast.",
        file="data.py",
        named=r"cent(er|re)d|smooth\w*|convol\w*|moving (mean|average)|look\w*[- ]?ahead|leak|(future|first hour|label|next hour)[^.]*(in|into|part of|reach)[^.]*(input|past)|(input|past)\w*[^.]*(contain|hold|see|know|depend|future)|\"same\"",
    ),
    fault_in(
        name="past is scaled and future not",
        project="forecasting",
        edits=(
            Edit(
                "data.py", "import numpy as np\n", "import numpy as np\nimport tensorflow as tf\n"
            ),
            Edit(
                "data.py",
                '    """None for no augmentation."""\n    return None\n',
                '    """A function (global batch, seed) -> global batch: varies the level of each series."""\n'
                "\n"
                "    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:\n"
                "        past, future, weights = batch\n"
                "        shape = (past.shape[0], 1, past.shape[2])\n"
                "        levels = tf.random.stateless_uniform(shape, seed, 0.8, 1.2, past.dtype)\n"
                "        return past * levels, future, weights\n"
                "\n"
                "    return augment\n",
            ),
        ),
        kind="augmentation",
        cause="The augmentation multiplies the past by a random factor and leaves the future, which has the same unit, as it was, so inputs and labels don't fit.",
        file="data.py",
        named=r"augment\w*|(past|input)s?[^.]*(scaled|multipl|factor|level)[^.]*(future|label|target|forecast|not|only|alone)|(future|label|target)s?[^.]*(not|n't|un|without|stay|left|unchanged)[^.]*(scal|multipl|factor|chang|same)|random (factor|level|scale)",
    ),
)

TWO_HEADS = (
    fault_in(
        name="class zero counts as missing",
        project="two_heads",
        edits=(Edit("losses.py", "labels[head] >= 0", "labels[head] > 0"),),
        kind="weights",
        cause="Labels of class 0 are masked like missing ones of -1, so the digit 0 and all odd digits (even = 0) are left out of loss and metrics.",
        file="losses.py",
        named=r"class (0|zero)|(0|zero)s?[^.]*(mask|missing|left out|ignored|drop|exclu|weight|treated|never|not count)|(mask|weight)\w*[^.]*(0\b|zero|class)|> 0|>= 0|(one|single|only)[^.]*class|odd",
    ),
    fault_in(
        name="cosine in epochs",
        project="two_heads",
        edits=(
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nEPOCHS = 40\n",
            ),
            Edit("optimizer.py", "decay_steps=steps)", "decay_steps=EPOCHS)"),
        ),
        kind="schedule",
        cause="The cosine decays over 40 steps, the number of epochs, where steps are needed, so the learning rate is 0 after 40 of 480 steps.",
        file="optimizer.py",
        named=r"epochs?[^.]*(instead|not|rather|unit|steps|where)|decay_steps|(learning[_ -]rate|schedule|rate)[^.]*(0|zero|vanish|too (early|soon|fast)|before)|40 steps|(stops?|no) (learning|training|updat)|units?",
    ),
    fault_in(
        name="one accuracy shared by both heads",
        project="two_heads",
        edits=(
            Edit(
                "metrics.py",
                '    return {f"{head}_accuracy": keras.metrics.SparseCategoricalAccuracy() for head in HEADS}\n',
                "    accuracy = keras.metrics.SparseCategoricalAccuracy()\n"
                '    return dict.fromkeys([f"{head}_accuracy" for head in HEADS], accuracy)\n',
            ),
        ),
        kind="metrics",
        cause="Both names hold the same metric object, which both heads update, so each column reports the pooled accuracy of the two heads.",
        file="metrics.py",
        named=r"(same|one|single|shared|identical|common)[^.]*(metric|object|accurac|instance|variable|number)|shar(e|ed|ing)|fromkeys|pool|(metric|accurac)\w*[^.]*(same|equal|identical|mix|both|shared)|both heads",
    ),
    fault_in(
        name="both losses divided by the digits",
        project="two_heads",
        edits=(
            Edit(
                "steps.py",
                "global_batch_size=replica.global_count[head]",
                'global_batch_size=replica.global_count["digit"]',
                "*",
            ),
        ),
        kind="loss",
        cause="The loss of each head is divided by the number of digit labels, and not by the number of that head's own labels.",
        file="steps.py",
        named=r"(divid|divis|denominat|averag|normali[sz]|global_count|count)\w*[^.]*(digit|head|wrong|other|own|even)|even[^.]*(loss|term)[^.]*(too (small|low|little)|quarter|factor|fourth|scale|not a mean|down)|(wrong|other) (count|denominator|head)|not the mean|quarter",
    ),
)

VAE = (
    fault_in(
        name="noise scaled by the variance",
        project="vae",
        edits=(
            Edit("steps.py", "tf.exp(0.5 * log_variance) * noise", "tf.exp(log_variance) * noise"),
        ),
        kind="model",
        cause="The sample uses the variance, exp(log_variance), where the standard deviation, exp(0.5 * log_variance), belongs.",
        file="steps.py",
        named=r"standard deviation|\bstd\b|stddev|0\.5|half|square root|sqrt|variance (instead|where|rather|itself|is used|not)|by (the|its) variance|repar(a)?met|log[_ ]variance[^.]*(halv|without|as)",
    ),
    fault_in(
        name="error averaged over the pixels",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "return tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "return tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
            ),
            Edit(
                "losses.py",
                '"""The squared error of each image, (batch,)."""',
                '"""The mean squared error of each image, (batch,)."""',
            ),
        ),
        kind="loss",
        cause="The reconstruction error is a mean over 64 pixels while the KL divergence is a sum over the code, so the KL divergence weighs 64 times too much.",
        file="losses.py",
        named=r"mean[^.]*(pixel|over|instead|not (a )?sum|error|reduc)|reduce_mean|averag\w*[^.]*pixel|sum(med)?[^.]*(pixel|instead)|collaps|KL[^.]*(too (much|strong|large)|weigh|dominat|64|outweigh|0|zero|vanish)|64|pixels|reduction|balance|scale of",
    ),
    fault_in(
        name="warm-up in validation counts batches",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "    loss = compute_loss(error + kl, weights, encoder, replica)\n",
                "    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)\n"
                "    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)\n",
            ),
        ),
        kind="evaluation",
        cause="In evaluation replica.step is the number of the batch, not of train steps, so the warm-up of the KL divergence is 0 to 0.015 there and the validation and test loss leave the KL divergence out.",
        file="steps.py",
        named=r"replica\.step|warm[-_ ]?up|(number|count|index) of (the )?batch|batch(es)? (number|index|count)|KL[^.]*(left out|missing|ignored|nearly 0|not count|weight|without|hardly|isn't|0)|(validation|evaluation|test)[^.]*(KL|without|depends)",
    ),
    fault_in(
        name="log variance never below zero",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "    mean, log_variance = tf.split(encoder(images, training=True), 2, axis=1)  # (batch, CODE)\n",
                "    mean, spread = tf.split(encoder(images, training=True), 2, axis=1)  # (batch, CODE)\n"
                "    log_variance = tf.nn.softplus(spread)\n",
            ),
            Edit(
                "steps.py",
                "    mean, log_variance = tf.split(encoder(images, training=False), 2, axis=1)  # (batch, CODE)\n",
                "    mean, spread = tf.split(encoder(images, training=False), 2, axis=1)  # (batch, CODE)\n"
                "    log_variance = tf.nn.softplus(spread)\n",
            ),
        ),
        kind="model",
        cause="A softplus, which belongs on a standard deviation, is on the log variance, which can't be negative then: the variance of a code is never below that of the prior, 1.",
        file="steps.py",
        named=r"softplus|log[_ ]variance[^.]*(negative|positive|below|above|at least|least|0|zero|constrain|never)|variance[^.]*(at least|below|less than|smaller than|never|under|>= ?1|\b1\b)|(noise|code)[^.]*(at least|too (much|large|noisy))|positive only|non-?negative",
    ),
)

FAULTS: tuple[Fault, ...] = (
    *CONTRASTIVE,
    *DISTILLATION,
    *FINETUNING,
    *FORECASTING,
    *TWO_HEADS,
    *VAE,
)

TASKS: tuple[Change, ...] = ()
