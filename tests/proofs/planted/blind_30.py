"""Faults of an examiner, half of them plain."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import fault_in

# A task for the blank project: which of three waveforms a noisy signal has.
_NO_TODO = "from .next_todo import TodoError\n"
_STEP = """    signals, labels, weights = batch
    logits = run.model(signals, training={training})  # (batch, CLASSES)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    return {{"main": compute_loss(per_example, weights, run.model, replica)}}
"""
_WAVEFORMS = (
    Edit(
        "config.py",
        """
from .next_todo import TodoError

""",
        """
""",
    ),
    Edit(
        "data.py",
        """from .config import TaskConfig
from .next_todo import TodoError
""",
        """import numpy as np

from .config import TaskConfig

SIZES = {"train": 2_400, "validation": 480, "test": 960}
SAMPLES, CLASSES = 64, 3  # 0 is a sine, 1 a square wave, 2 a sawtooth
NOISE = 0.7
""",
    ),
    Edit(
        "data.py",
        '''    """The examples of each split.

    A split is arrays with a row per example, (inputs, labels) or (inputs, labels, weights), in
    memory or mapped; an object with __len__ and __getitem__; RandomAccess, see
    engine/random_access.py; or a tf.data.Dataset of single examples. Only "train" is required.
    Inputs, labels and weights may each be a dict of several.
    """
    raise TodoError(
        2,
        "create_datasets in task/data.py must return your examples by split, such as "
        '{"train": (inputs, labels), "validation": (inputs, labels), "test": (inputs, labels)}',
    )
''',
        '''    """The examples of each split: signals float32 (n, SAMPLES, 1), labels int64 (n,)."""
    random = np.random.default_rng(0)
    return {split: _signals(random, size) for split, size in SIZES.items()}
''',
    ),
    Edit(
        "data.py",
        """    raise TodoError(
        3,
        "create_augment in task/data.py must return a function (batch, seed) -> batch, or None to "
        "leave training batches as they are",
    )
""",
        '''    return None


def _signals(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Waves of random class, frequency and phase, with noise."""
    labels = random.integers(CLASSES, size=size)
    frequency, phase = random.uniform(2, 5, (size, 1)), random.uniform(0, 1, (size, 1))
    cycle = (frequency * np.linspace(0, 1, SAMPLES) + phase) % 1  # (size, SAMPLES)
    waves = np.stack([np.sin(2 * np.pi * cycle), np.where(cycle < 0.5, 1.0, -1.0), 2 * cycle - 1])
    signals = waves[labels, np.arange(size)] + random.normal(0, NOISE, cycle.shape)
    return signals[..., np.newaxis].astype("float32"), labels.astype("int64")
''',
    ),
    Edit("losses.py", _NO_TODO, ""),
    Edit(
        "losses.py",
        """    raise TodoError(
        5,
        "create_losses in task/losses.py must return losses by name, such as "
        '{"main": keras.losses.MeanSquaredError(reduction="none")}',
    )
""",
        """    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
""",
    ),
    Edit(
        "losses.py",
        """    raise TodoError(
        10,
        "count in task/losses.py must return how many examples (tokens, pixels) of a batch count, "
        "such as tf.math.count_nonzero(batch[-1], dtype=tf.int32), where batch[-1] are the weights",
    )
""",
        """    return tf.math.count_nonzero(batch[-1], dtype=tf.int32)
""",
    ),
    Edit("metrics.py", _NO_TODO, ""),
    Edit(
        "metrics.py",
        """    raise TodoError(
        6,
        "create_metrics in task/metrics.py must return metrics by name, such as "
        '{"accuracy": keras.metrics.SparseCategoricalAccuracy()}, or {} for none',
    )
""",
        """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
    ),
    Edit("model.py", _NO_TODO, "from .data import CLASSES, SAMPLES\n"),
    Edit(
        "model.py",
        """    raise TodoError(
        4,
        "create_model in task/model.py must return a model that is built, such as "
        "keras.Sequential([keras.Input((20,)), keras.layers.Dense(10)])",
    )
""",
        """    layers = keras.layers
    signals = keras.Input((SAMPLES, 1), name="signals")
    x = layers.Conv1D(task.filters, 7, padding="same", activation="relu")(signals)
    x = layers.MaxPooling1D()(x)  # (batch, SAMPLES/2, filters)
    x = layers.Conv1D(2 * task.filters, 7, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling1D()(x)  # (batch, 2 filters)
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(signals, logits)
""",
    ),
    Edit("optimizer.py", _NO_TODO, ""),
    Edit(
        "optimizer.py",
        """    raise TodoError(
        12,
        "process_gradients in task/optimizer.py must return a gradient for each variable; "
        "`return gradients` leaves them as they are",
    )
""",
        """    return gradients
""",
    ),
    Edit("pictures.py", _NO_TODO, ""),
    Edit(
        "pictures.py",
        """    raise TodoError(
        8,
        "draw_samples in task/pictures.py must draw some training examples to a file; "
        "`return` draws none",
    )
""",
        """    return
""",
    ),
    Edit(
        "pictures.py",
        """    raise TodoError(
        15,
        "draw_predictions in task/pictures.py must draw some predictions of run.model to a file; "
        "`return` draws none",
    )
""",
        """    return
""",
    ),
    Edit("steps.py", _NO_TODO, "from .losses import compute_loss\n"),
    Edit(
        "steps.py",
        """    raise TodoError(
        11,
        "train_step in task/steps.py must predict with run.model(..., training=True), update "
        'run.metrics, and return {"main": compute_loss(...)} of run.losses["main"](...)',
    )
""",
        _STEP.format(training=True),
    ),
    Edit(
        "steps.py",
        """    raise TodoError(
        13, "validation_step in task/steps.py must do the same as train_step with training=False"
    )
""",
        _STEP.format(training=False),
    ),
    Edit(
        "steps.py",
        """    raise TodoError(
        14, "test_step in task/steps.py may `return validation_step(run, batch, replica)`"
    )
""",
        """    return validation_step(run, batch, replica)
""",
    ),
)
_CONFIG_TODO = """        raise TodoError(
            1,
            "TaskConfig in task/config.py needs the settings of your task and the column of "
            "history.csv that selects the best weights; then delete this error",
        )
"""
_FLAGS = '''    """Waveforms."""

    learning_rate: float = 2e-2  # learning rate at the start
    filters: int = 16  # of the first convolution; the second has twice as many
'''
_PATIENCE = """    patience: int = 3  # validations without progress until the learning rate is halved
"""
_CHECK = """        for name in ({names}):
            if not getattr(self, name) > 0:
                flag = f"--{{name.replace('_', '-')}}"
                raise ValueError(f"{{flag}} is {{getattr(self, name)}}; it must be more than 0.")
"""
_TASK = '''    """The task."""

'''
_OPTIMIZER_TODO = """    raise TodoError(
        7,
        "create_optimizer in task/optimizer.py must return an optimizer, such as "
        "keras.optimizers.Adam(1e-3)",
    )
"""
_CALLBACKS_TODO = """    raise TodoError(
        9, "create_callbacks in task/callbacks.py must return a list of callbacks, or [] for none"
    )
"""

FAULTS: tuple[Fault, ...] = (
    fault_in(
        name="mean over the replica's own batch",
        project="blank",
        edits=(
            *_WAVEFORMS,
            Edit("config.py", _TASK, _FLAGS),
            Edit("config.py", _CONFIG_TODO, _CHECK.format(names='"learning_rate", "filters"')),
            Edit(
                "optimizer.py",
                _OPTIMIZER_TODO,
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.SGD(schedule, momentum=0.9)
""",
            ),
            Edit("callbacks.py", _NO_TODO, ""),
            Edit("callbacks.py", _CALLBACKS_TODO, "    return []\n"),
            Edit(
                "losses.py",
                """    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count
    )
""",
                """    loss = tf.reduce_mean(per_example * weights)
""",
            ),
        ),
        kind="distribution",
        cause="compute_loss averages over the rows of its own replica (tf.reduce_mean) instead of "
        "dividing by replica.global_count, and the parts are summed over the replicas.",
        file="losses.py",
        named=r"reduce_mean|global_count|global batch|own batch|local (batch|mean|average)"
        r"|per[- ]replica (mean|batch|average)|(N|number of replicas|replica) times"
        r"|depends? on the number of replicas|divided by (the )?(rows|replica)|denominator",
    ),
    fault_in(
        name="plateau counters kept in a closure",
        project="blank",
        edits=(
            *_WAVEFORMS,
            Edit("config.py", _TASK, _FLAGS + _PATIENCE),
            Edit(
                "config.py",
                _CONFIG_TODO,
                _CHECK.format(names='"learning_rate", "filters", "patience"'),
            ),
            Edit(
                "optimizer.py",
                _OPTIMIZER_TODO,
                "    return keras.optimizers.SGD(task.learning_rate, momentum=0.9)\n",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\n",
                "from ..engine.callbacks import Callback, Event, every_validation\n",
            ),
            Edit("callbacks.py", _NO_TODO, ""),
            Edit(
                "callbacks.py",
                _CALLBACKS_TODO,
                """    best, waited = float("inf"), 0

    def halve_on_plateau(event: Event) -> None:
        nonlocal best, waited
        loss = event.history[-1]["validation_loss"]
        waited = 0 if loss < best else waited + 1
        best = min(best, loss)
        if waited >= task.patience:
            rate = event.learning_rates["main"]
            event.run.optimizers["main"].learning_rate = rate / 2
            waited = 0

    return [every_validation(halve_on_plateau)]
""",
            ),
        ),
        kind="state",
        cause="The best loss and the number of validations waited are variables of a closure, not "
        "of an object with get_state and set_state, so a checkpoint doesn't hold them.",
        file="callbacks.py",
        named=r"get_state|set_state|closure|nonlocal"
        r"|(best|wait\w*|counter|patience|plateau|callback)\W.{0,90}(resum|checkpoint|restor|saved|lost)"
        r"|(resum|checkpoint|restor)\w*.{0,90}(best|wait|counter|patience|plateau|callback|state)",
    ),
    fault_in(
        name="features normalized over the batch axis",
        project="contrastive",
        edits=(
            Edit(
                "steps.py",
                "axis=1)  # (rows, features)",
                "axis=0)  # (rows, features)",
                "*",
            ),
        ),
        kind="loss",
        cause="l2_normalize works along axis 0, the rows, instead of the features of each example: "
        "the similarity is no cosine and depends on what else is in the replica's batch.",
        file="steps.py",
        named=r"normali[sz].{0,80}(axis|batch|rows|examples|features)|axis[ =]*0|wrong (axis|dimension)"
        r"|(across|over|along) the (batch|rows|examples)|unit (length|norm)|(no|not|aren.t) .{0,20}cosine"
        r"|mix(es|ing)? (the )?(examples|rows)",
    ),
    fault_in(
        name="one noise pattern for all images",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                "noise = random.normal(0, 0.4, images.shape)",
                "noise = random.normal(0, 0.4, images.shape[1:])",
            ),
        ),
        kind="randomness",
        cause="The noise is drawn with the shape of one image and broadcast, so every image of a "
        "split gets the same noise pattern instead of its own.",
        file="data.py",
        named=r"(same|one|single|identical|constant|shared|fixed) (random )?(noise|pattern|perturbation)"
        r"|noise.{0,80}(same|broadcast|identical|every image|each image|all images|per image|shape)"
        r"|shape\[1:\]|broadcast",
    ),
    fault_in(
        name="cosine decay counted in epochs",
        project="distillation",
        edits=(
            Edit(
                "optimizer.py",
                """from .config import TaskConfig

""",
                """from .config import TaskConfig

EPOCHS = 40

""",
            ),
            Edit(
                "optimizer.py",
                "CosineDecay(task.learning_rate, decay_steps=steps)",
                "CosineDecay(task.learning_rate, decay_steps=EPOCHS)",
            ),
        ),
        kind="schedule",
        cause="decay_steps is a number of epochs (40), but the schedule is stepped once per train "
        "step, so the learning rate is 0 after 40 of some 500 steps.",
        file="optimizer.py",
        named=r"decay_steps|learning rate.{0,80}(zero|0\b|too (early|soon)|vanish|stops|ends)"
        r"|schedule.{0,80}(epoch|steps|early|end|unit|short)|epochs?.{0,40}(instead of|not|for) (train )?steps",
    ),
    fault_in(
        name="accuracy against the teacher's answers",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["accuracy"].update_state(labels, logits, weights)',
                'run.metrics["accuracy"].update_state(tf.argmax(taught, axis=1), logits, weights)',
                "validation_step",
            ),
        ),
        kind="evaluation",
        cause="Validation and test compare the student with the teacher's predictions, so what is "
        "reported as accuracy is agreement with the teacher and not with the labels.",
        file="steps.py",
        named=r"teacher.{0,100}(label|accura|agree|metric|truth|target|predict|answer)"
        r"|(accura|metric|agree)\w*.{0,100}teacher|labels.{0,60}(unused|ignored|not used|true)"
        r"|agreement|argmax\(taught",
    ),
    fault_in(
        name="images scaled by 255 a second time",
        project="finetuning",
        edits=(
            Edit(
                "model.py",
                "    features = keras.layers.Dropout(task.dropout)(backbone(images))\n",
                """    scaled = keras.layers.Rescaling(1 / 255)(images)
    features = keras.layers.Dropout(task.dropout)(backbone(scaled))
""",
            ),
        ),
        kind="data",
        cause="The data is in [0, 1] already and the model divides it by 255 again, so the "
        "pretrained backbone, with its fixed normalization statistics, sees nearly black images.",
        file="model.py",
        named=r"rescal|255|scaled? (twice|again|a second)|twice|double.{0,20}(scal|normali)"
        r"|already.{0,40}(\[?0|scaled|normali)|input (range|scale)|range of the (inputs|images)"
        r"|(nearly|almost|near) (black|zero|constant|0)",
    ),
    fault_in(
        name="learning rates of head and backbone exchanged",
        project="finetuning",
        edits=(
            Edit(
                "optimizer.py",
                'lambda v: fast if v.path.startswith("logits/") else slow',
                'lambda v: slow if v.path.startswith("logits/") else fast',
            ),
        ),
        kind="optimizer",
        cause="The new head gets the small learning rate and the pretrained backbone the large "
        "one, ten times as large: fast and slow are exchanged.",
        file="optimizer.py",
        named=r"(swap|exchang|revers|invert|mixed up|wrong way|other way)"
        r"|(backbone|pretrained).{0,100}(fast|large|high|2e-3|learning rate|schedule|ten times)"
        r"|(head|logits|last layer).{0,100}(slow|small|low|2e-4|learning rate)"
        r"|(fast|slow|2e-4|2e-3).{0,100}(backbone|head|logits)",
    ),
    fault_in(
        name="forecast begins with the last hour of the past",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "windows[:, TARGET, PAST:]",
                "windows[:, TARGET, PAST - 1 : -1]",
            ),
        ),
        kind="labels",
        cause="The labels begin one hour too early, off by one: the first value to forecast is the "
        "last one of the inputs.",
        file="data.py",
        named=r"off[- ]by[- ]one|overlap|PAST ?- ?1|(label|target|forecast|future)\w*.{0,100}"
        r"(input|past|copy|copies|early|known|leak|shift|contain)|(input|past)\w*.{0,100}"
        r"(contain|include|hold)\w*.{0,60}(label|target|forecast|future|answer)|leak",
    ),
    fault_in(
        name="inputs smoothed by a centered moving average",
        project="forecasting",
        edits=(
            Edit(
                "data.py",
                "PAST, FUTURE = 24, 6  # hours\n",
                "PAST, FUTURE = 24, 6  # hours\nSMOOTH = 5  # hours over which inputs are averaged\n",
            ),
            Edit(
                "data.py",
                """    return windows[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]
""",
                '''    smooth = np.lib.stride_tricks.sliding_window_view(_smoothed(rows), PAST + FUTURE, axis=0)
    return smooth[:, :, :PAST].swapaxes(1, 2), windows[:, TARGET, PAST:]


def _smoothed(rows: np.ndarray) -> np.ndarray:
    """The rows with less noise: a moving average of the values that are there."""
    half = SMOOTH // 2
    padded = np.pad(rows, [(half, half), (0, 0)], mode="edge")
    near = np.lib.stride_tricks.sliding_window_view(padded, SMOOTH, axis=0)  # (n, columns, SMOOTH)
    there = ~np.isnan(near)
    number = there.sum(axis=-1)
    total = np.where(there, near, 0).sum(axis=-1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan).astype(np.float32)
''',
            ),
        ),
        kind="leak",
        cause="The moving average is centered, so the last two inputs of a window are averages "
        "that hold the first two hours to be forecast.",
        file="data.py",
        named=r"smooth|moving average|cent(er|re)|look[- ]?ahead|leak"
        r"|(input|past)\w*.{0,100}(future|label|target|forecast)"
        r"|(future|label|target)\w*.{0,100}(input|past)",
    ),
    fault_in(
        name="real images in another range than generated ones",
        project="gan",
        edits=(
            Edit(
                "data.py",
                '"train": np.tile(train, (task.passes, 1, 1, 1)),',
                '"train": np.tile(2 * train - 1, (task.passes, 1, 1, 1)),',
            ),
        ),
        kind="data",
        cause="Training images are scaled to [-1, 1], but the generator ends in a sigmoid with "
        "values in [0, 1], and validation and test images are in [0, 1].",
        file="data.py",
        named=r"\[?-1(\.0)?, ?1|sigmoid|tanh|negative (value|pixel|background)|2 ?\* ?train ?- ?1"
        r"|(range|scal)\w*.{0,100}(differ|mismatch|generat|validation|real|training|split|other|another)"
        r"|(train|real)\w*.{0,100}(range|scale)",
    ),
    fault_in(
        name="training latents from another distribution",
        project="gan",
        edits=(
            Edit(
                "data.py",
                "        return images, tf.random.stateless_normal("
                "shape, seed, dtype=keras.config.floatx()), weights\n",
                """        latents = tf.random.stateless_uniform(shape, seed, dtype=keras.config.floatx())
        return images, latents, weights
""",
            ),
        ),
        kind="evaluation",
        cause="Training draws latents uniformly from [0, 1), while validation, test and pictures "
        "draw them from a standard normal distribution.",
        file="data.py",
        named=r"uniform|(latent|noise)\w*.{0,100}(distribution|normal|gaussian|differ|mismatch|train|evaluat)"
        r"|(distribution|prior).{0,80}latent",
    ),
    fault_in(
        name="digits flipped in both directions",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                "        return keras.ops.image.affine_transform(images, transforms), labels, weights\n",
                """        images = keras.ops.image.affine_transform(images, transforms)
        other_seed = tf.random.experimental.stateless_fold_in(seed, 1)
        flips = tf.random.stateless_uniform((shifts.shape[0], 2, 1, 1, 1), other_seed) < 0.5
        images = tf.where(flips[:, 0], images[:, ::-1], images)
        images = tf.where(flips[:, 1], images[:, :, ::-1], images)
        return images, labels, weights
""",
            ),
        ),
        kind="augmentation",
        cause="The augmentation flips digits up and down and left and right, which doesn't keep "
        "their label: a 6 flipped both ways is a 9.",
        file="data.py",
        named=r"flip|mirror|upside|6.{0,30}9|revers\w+ (rows|columns|axis|images)"
        r"|augment\w*.{0,100}(label|class|meaning|preserv)|::-1",
    ),
    fault_in(
        name="accuracy is that of the top five",
        project="image_classification",
        edits=(
            Edit(
                "metrics.py",
                "keras.metrics.SparseCategoricalAccuracy()",
                "keras.metrics.SparseTopKCategoricalAccuracy()",
            ),
        ),
        kind="metrics",
        cause="SparseTopKCategoricalAccuracy has k=5 by default: an example counts as right if its "
        "label is among the five likeliest of ten classes.",
        file="metrics.py",
        named=r"top[- _]?(k|5|five)|k ?= ?5|five (likeliest|best|most|highest|of)|among the (five|5|k|likeliest)",
    ),
    fault_in(
        name="attention without its causal mask",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                """        # Padding needs no mask: it comes last, and no token attends to a later one.
        y = layers.LayerNormalization()(x)
""",
                """        y = layers.LayerNormalization()(x)
""",
            ),
            Edit(
                "model.py",
                "x = x + layers.Dropout(task.dropout)(attention(y, y, use_causal_mask=True))",
                "x = x + layers.Dropout(task.dropout)(attention(y, y))",
            ),
        ),
        kind="model",
        cause="The self-attention has no causal mask, so each position reads the later tokens, "
        "among them the one that it has to predict.",
        file="model.py",
        named=r"causal|use_causal_mask|mask|(later|next|future|following) (token|position|character)"
        r"|look\w* ahead|(sees?|reads?|attends?).{0,40}(future|later|next|target|answer)|leak",
    ),
    fault_in(
        name="the last form of dates is never drawn",
        project="language_model",
        edits=(
            Edit(
                "data.py",
                "tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)",
                "tf.random.stateless_uniform((rows,), seed, 0, forms - 1, tf.int32)",
            ),
        ),
        kind="augmentation",
        cause="The upper bound of integers is exclusive, so with forms - 1 the last of the 16 "
        "forms (19790503) is never trained on.",
        file="data.py",
        named=r"forms? ?- ?1|exclusive|off[- ]by[- ]one|maxval"
        r"|(last|one|15|sixteenth|16th|a)\b.{0,40}form.{0,80}(never|not|miss|left out|without|unseen|exclud)"
        r"|never.{0,60}(drawn|picked|chosen|seen|trained|selected|reach)",
    ),
    fault_in(
        name="labels not warped with their images",
        project="segmentation",
        edits=(
            Edit(
                "data.py",
                """rotates, shears and scales each
# image together with its labels.
""",
                """rotates, shears and scales each
# image.
""",
            ),
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
        cause="The augmentation warps the images and leaves the label maps as they are, so pixels "
        "and labels no longer belong together.",
        file="data.py",
        named=r"(label|mask|target)\w*.{0,100}(warp|transform|augment|rotat|moved|align|unchanged|together|match)"
        r"|(warp|transform|augment|rotat)\w*.{0,100}(label|mask|target)|misalign",
    ),
    fault_in(
        name="moving averages too slow for the run",
        project="segmentation",
        edits=(Edit("model.py", "momentum=0.9,", "momentum=0.999,"),),
        kind="state",
        cause="With momentum 0.999 the moving averages of batch normalization need thousands of "
        "steps, and the run has about 320: they are still near their initial values at its end.",
        file="model.py",
        named=r"momentum|0?\.999|moving (average|mean|variance|statistic)|running (mean|variance|statistic|average)"
        r"|batch ?norm\w*.{0,100}(statistic|average|slow|initial|inference|evaluat|validation|converge)",
    ),
    fault_in(
        name="relu on a standardized output",
        project="tabular_regression",
        edits=(
            Edit(
                "model.py",
                "x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)",
                "x = layers.Concatenate()([x, hidden])\n"
                '    x = layers.Dense(1, activation="relu", dtype=floatx)(x)  # (batch, 1)',
            ),
        ),
        kind="model",
        cause="The output has a ReLU before it is scaled back to the labels' mean and deviation, "
        "so no prediction can be below the mean label.",
        file="model.py",
        named=r"relu|(below|under|less than|smaller than|lower than) (the )?(mean|average|label)"
        r"|(output|prediction)\w*.{0,80}(clip|non-?negative|negative|activation|cut|bounded|floor)"
        r"|activation.{0,60}(output|last|final)",
    ),
    fault_in(
        name="rest taken from positions and test from the permutation",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                "test, rest = order[is_test], order[~is_test]",
                "test, rest = order[is_test], np.flatnonzero(~is_test)",
            ),
        ),
        kind="leak",
        cause="Test rows are looked up in the permutation, the other rows are the positions "
        "themselves, so about four fifths of the test rows are in training or validation too.",
        file="data.py",
        named=r"overlap|leak|(test|rest)\w*.{0,100}(in|also|too|are) (train|validation|both)|contaminat"
        r"|permut|order\[|flatnonzero|disjoint|same (rows|examples|patients)|(train|validation)\w*.{0,60}test",
    ),
    fault_in(
        name="best weights are those of the largest loss",
        project="two_heads",
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_digit_accuracy"',
                'monitor: str = "validation_digit"',
            ),
        ),
        kind="evaluation",
        cause="validation_digit is the cross-entropy of the digit head, of which smaller values "
        "are better, but larger_is_better is still True.",
        file="config.py",
        named=r"larger_is_better|larger[- ]is[- ]better|(largest|highest|worst|maximi[sz]).{0,60}(loss|entropy|weights|validation|epoch)"
        r"|monitor|direction|smaller (values )?(is|are) better",
    ),
    fault_in(
        name="class 0 counts as missing",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "weights * tf.cast(labels[head] >= 0, weights.dtype)",
                "weights * tf.cast(labels[head] > 0, weights.dtype)",
            ),
        ),
        kind="weights",
        cause="Only -1 marks a missing label, but the mask keeps labels above 0, so examples of "
        "class 0 (the digit 0, and every odd digit of the other head) get weight 0.",
        file="losses.py",
        named=r"> ?0|>= ?0|class (0|zero)|label (of )?(0|zero)|digit (0|zero)|zero\w* (label|class|digit)"
        r"|\bodd\b|mask|(valid|real|known|present) labels?.{0,60}(missing|left out|drop|ignored|weight)",
    ),
    fault_in(
        name="reconstruction averaged over pixels",
        project="vae",
        edits=(
            Edit(
                "losses.py",
                "tf.reduce_sum(tf.square(images - decoded), axis=[1, 2, 3])",
                "tf.reduce_mean(tf.square(images - decoded), axis=[1, 2, 3])",
            ),
        ),
        kind="loss",
        cause="The squared error is a mean over the 64 pixels, the KL divergence a sum over the "
        "code, so the KL divergence weighs 64 times too much in the sum of both.",
        file="losses.py",
        named=r"reduce_mean|mean (over|of) (the |all )?pixels|averag\w+.{0,30}pixels|per[- ]pixel|sum(med)? over (the )?pixels"
        r"|collapse|(kl|divergence).{0,80}(domin|weigh|too (much|strong|large)|64|scale|outweigh|relative)"
        r"|(reconstruction|squared error).{0,80}(mean|averag|64|too small|scale|weigh)",
    ),
    fault_in(
        name="validation warms the kl divergence up by its batch number",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "    loss = compute_loss(error + kl, weights, encoder, replica)\n",
                """    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
""",
            ),
        ),
        kind="evaluation",
        cause="In evaluation replica.step is the number of the batch within the split, not of "
        "train steps, so the KL divergence has a weight of 0 to about 0.02 in the validation loss.",
        file="steps.py",
        named=r"warm[-_ ]?up|replica\.step|batch (number|index|count)|number of (the )?batch|anneal"
        r"|(kl|divergence).{0,100}(validation|evaluat|test|weight|left out|missing|zero|0\b|ignored)"
        r"|(validation|evaluat|test)\w*.{0,100}(kl|divergence)",
    ),
)

TASKS: tuple[Change, ...] = ()
