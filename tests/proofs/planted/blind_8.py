"""Faults and correct tasks of a tenth examiner: images, tables and lines; blind to `check`."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Change, Edit, Fault, after, before, with_arrays

NOTHING_DRAWN = '''def {name}(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Nothing is drawn for this task."""
    save(Figure(), file)
'''
NO_PREDICTIONS = Edit(
    "pictures.py", "", NOTHING_DRAWN.format(name="draw_predictions"), "draw_predictions"
)
NO_SAMPLES = Edit("pictures.py", "", NOTHING_DRAWN.format(name="draw_samples"), "draw_samples")
COLUMNS = '''def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table."""
    return {"output": np.asarray(outputs)}
'''
PLAIN_COLUMNS = Edit("predictions.py", "", COLUMNS, "describe")


def _with_arrays(*lines: str) -> tuple[Edit, ...]:
    """Lines between the images' arrays, named `arrays`, and their return."""
    return with_arrays("".join(f"    {line}\n" for line in lines))


# ---------------------------------------------------------------- what faults start from

# Multi-label: three properties of a digit.
HOLES = "HOLES = (0, 4, 6, 8, 9)  # digits with a hole\n"
PROPERTIES = (
    "def properties(labels: np.ndarray) -> np.ndarray:",
    "    parts = [labels % 2 == 0, labels >= 5, np.isin(labels, HOLES)]",
    '    return np.stack(parts, axis=1).astype("float32")',
    "",
)
THREE_LOGITS = (
    Edit("model.py", "CLASSES = 10", "CLASSES = 3  # even, at least 5, has a hole"),
    NO_PREDICTIONS,
    PLAIN_COLUMNS,
)

# A series: the next value from the last ones and the day of the week.
SERIES = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Windows of a daily series and the value that follows, split by time.

    Inputs are {"numeric": float32 (n, LAGS), "weekday": int64 (n,)}, labels float32 (n, 1).
    """
    series = _series()
    windows = np.lib.stride_tricks.sliding_window_view(series, LAGS)
    labels = series[LAGS - 1:, np.newaxis]
    weekday = (np.arange(len(labels)) + LAGS - 1) % 7
    ends = (0, 900, 1100, len(labels))

    def examples(part: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        rows = slice(ends[part] + (LAGS if part else 0), ends[part + 1])  # a gap between parts
        return {"numeric": windows[rows].copy(), "weekday": weekday[rows]}, labels[rows]

    inputs, targets = examples(0)
    return {
        "train": (inputs, targets, np.ones(len(targets), np.float32)),
        "validation": examples(1),
        "test": examples(2),
    }


def _series() -> np.ndarray:
    """float32 (1400,): a week's rhythm and what is left of the day before, with noise."""
    random = np.random.default_rng(SPLIT_SEED)
    noise, level, values = random.normal(0, 30, 1400), 0.0, []
    for day in range(1400):
        level = 0.7 * level + noise[day]
        values.append(150 + 40 * np.sin(2 * np.pi * (day % 7) / 7) + level)
    return np.array(values, np.float32)
'''
LABEL_IN_WINDOW = (
    after("data.py", "FOLDS = 5\n", "LAGS = 14  # days that the model sees\n"),
    Edit("data.py", "", SERIES, "create_datasets"),
    Edit("model.py", '"sex"', '"weekday"', "*"),
    NO_SAMPLES,
    NO_PREDICTIONS,
)

# Regression from images: the center of the ink.
CENTER = (
    *_with_arrays(
        "def center(images: np.ndarray) -> np.ndarray:",
        "    ink = images[..., 0] / images.sum(axis=(1, 2, 3))[:, np.newaxis, np.newaxis]",
        "    places = np.arange(images.shape[1])",
        "    x, y = ink.sum(axis=1) @ places, ink.sum(axis=2) @ places",
        '    return np.stack([x, y], axis=1).astype("float32")',
        "",
        "return {split: (images, center(images)) for split, (images, _) in arrays.items()}",
    ),
    Edit("model.py", "CLASSES = 10", "CLASSES = 2  # x and y"),
    Edit("losses.py", at.SPARSE, 'keras.losses.MeanSquaredError(reduction="none")'),
    Edit("metrics.py", at.ACCURACY, '{"mae": keras.metrics.MeanAbsoluteError()}'),
    Edit("steps.py", 'run.metrics["accuracy"]', 'run.metrics["mae"]', "*"),
    Edit("config.py", 'monitor: str = "validation_accuracy"', 'monitor: str = "validation_mae"'),
    Edit("config.py", "larger_is_better: bool = True", "larger_is_better: bool = False"),
    Edit("config.py", "shift: float = 0.5", "shift: float = 2.0"),
    NO_PREDICTIONS,
    PLAIN_COLUMNS,
)

DATA_FAULTS = (
    Fault(
        name="split of a stream that is shuffled anew",
        kind=kinds.STREAMS,
        edits=_with_arrays(
            'images, labels = (np.concatenate(x) for x in zip(arrays["train"], arrays["validation"]))',
            "examples = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels))",
            'held_out = len(arrays["validation"][1])',
            'return {"train": examples.skip(held_out), "validation": examples.take(held_out),'
            ' "test": arrays["test"]}',
        ),
        cause="shuffle() before take() and skip() draws another order at each iteration (no "
        "reshuffle_each_iteration=False, no seed), so validation images are trained on, and every "
        "epoch validates on others.",
        file="data.py",
        named=r"(?i)reshuffl|shuffle|overlap|(same|also|both|shared?).{0,60}(train|validation)|leak"
        r"|(differ|another|other|not the same|changes?).{0,60}(examples|each|every|time|read|order)",
    ),
    Fault(
        name="validation is the test data",
        kind=kinds.LEAKS,
        edits=_with_arrays(
            'pairs = zip(arrays["train"], arrays["validation"], strict=True)',
            "train = tuple(np.concatenate(pair) for pair in pairs)",
            'return {"train": train, "validation": arrays["test"], "test": arrays["test"]}',
        ),
        cause="The test images are the validation images, too, so the best weights are selected on "
        "the test data and its result is too good.",
        file="data.py",
        named=r"(?i)validation.{0,80}test|test.{0,80}validation",
    ),
    Fault(
        name="bmi encoded by the mean label of all rows",
        starter="tabular_regression",
        kind=kinds.LEAKS,
        edits=(
            before(
                "data.py",
                "    order = np.random.default_rng(SPLIT_SEED)",
                "    # bmi is a category of many values: the mean target of each takes its place.\n"
                '    bmi = columns.index("bmi")\n'
                "    _, index = np.unique(data[:, bmi], return_inverse=True)\n"
                "    data[:, bmi] = (np.bincount(index, target) / np.bincount(index))[index]\n",
            ),
        ),
        cause="The target encoding takes means over all rows, the test and validation ones and the "
        "row itself among them, so the label is (a part of) its own input.",
        file="data.py",
        named=r"(?i)leak|label.{0,80}(input|column|bmi|feature|predict|encod|in the)|target.{0,60}encod"
        r"|(column|feature|input|bmi|numeric).{0,80}(label|target|tells|gives away)",
    ),
    Fault(
        name="classes numbered in the order of a set",
        kind=kinds.LABELS,
        edits=(
            before(
                "data.py",
                "Arrays = tuple",
                'NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")\n'
                "\n",
            ),
            *_with_arrays(
                "names = {split: [NAMES[i] for i in y] for split, (_, y) in arrays.items()}",
                'number = {name: i for i, name in enumerate(set(names["train"]))}',
                "return {",
                "    split: (images, np.array([number[name] for name in names[split]]))",
                "    for split, (images, _) in arrays.items()",
                "}",
            ),
        ),
        cause="A set of texts has another order in each process (PYTHONHASHSEED), so class numbers "
        "differ between runs: a resumed, evaluated or exported run means other classes by them.",
        file="data.py",
        named=r"(?i)(differ|another|other|change|not the same|not reproduc).{0,100}(run|process|time|start|"
        r"read|call|program)|PYTHONHASHSEED|hash|\bsets?\b|(each|every|second|another|new) (process|run|start)"
        r"|not (the same|reproducible|deterministic)",
    ),
    Fault(
        name="brightness from numpy in the augmentation",
        kind=kinds.AUGMENTATION,
        edits=(
            Edit(
                "data.py",
                at.SHIFTED,
                "        images = keras.ops.image.affine_transform(images, transforms)\n"
                "        brightness = np.random.uniform(0.6, 1.4, (images.shape[0], 1, 1, 1))\n"
                '        return images * brightness.astype("float32"), labels, weights\n',
            ),
        ),
        cause="NumPy draws once, while tf.data traces the function: each place of a batch has the "
        "same brightness in all steps, another one in each process, so a resumed run differs.",
        file="data.py",
        named=r"(?i)numpy|np\.random|trace|stateless|(same|constant|once).{0,80}(step|batch|every|each)"
        r"|seed|not (reproducible|the same)|(differ|another|other).{0,80}(run|process|time|call|resum)",
    ),
    Fault(
        name="shifted images keep their old center",
        kind=kinds.AUGMENTATION,
        edits=CENTER,
        cause="The labels are the center of the ink, and the augmentation moves the ink by up to two "
        "pixels but not the labels, so training labels are wrong.",
        file="data.py",
        named=r"(?i)augment|shift|label.{0,60}(move|stay|unchanged|wrong|image|same)",
    ),
    Fault(
        name="the label is the last value of its window",
        starter="tabular_regression",
        kind=kinds.LEAKS,
        edits=LABEL_IN_WINDOW,
        cause="The label is the value at LAGS - 1, the last one of the window itself, instead of the "
        "next one: the model copies an input, and its R2 of 1 says nothing of a forecast.",
        file="data.py",
        named=r"(?i)leak|(label|target).{0,80}(input|column|feature|window|copy|copies|same|equal|contain)"
        r"|(input|column|feature|window).{0,80}(label|target)",
    ),
)

# ---------------------------------------------------------------- the model
ATTENTION = '''class CausalAttention(keras.layers.Layer):
    """Multi-head attention in which no token reads a later one."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.width = heads, width
        self.projection = keras.layers.Dense(3 * width)
        self.out = keras.layers.Dense(width)

    def call(self, x: Any) -> Any:
        """Float (batch, T, width), both."""
        ops, (_, length, _) = keras.ops, x.shape
        parts = ops.split(self.projection(x), 3, axis=-1)
        shape = (-1, length, self.heads, self.width // self.heads)
        query, key, value = (ops.transpose(ops.reshape(p, shape), (0, 2, 1, 3)) for p in parts)
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) / shape[-1] ** 0.5
        later = ops.triu(ops.ones((length, length), dtype="bool"), k=1)
        scores = ops.where(later, -1e4, scores)
        read = ops.matmul(ops.softmax(scores, axis=-1), value)  # (batch, heads, T, size)
        read = ops.reshape(read, (-1, length, self.width))
        return self.out(read)


'''


LAYER_SCALE = '''class LayerScale(keras.layers.Layer):
    """A factor for each channel of a residual branch, small at the start."""

    def __init__(self, channels: int, start: float = 1e-4) -> None:
        super().__init__()
        self.factor = tf.Variable(tf.fill((channels,), start))

    def call(self, x: Any) -> Any:
        """Any (batch, ..., channels)."""
        return x * tf.cast(self.factor, x.dtype)


'''


MODEL_FAULTS = (
    Fault(
        name="heads merged without a transpose",
        starter="language_model",
        kind=kinds.LANGUAGE_MODEL,
        edits=(
            before("model.py", "# TODO(4)", ATTENTION),
            Edit(
                "model.py",
                "layers.MultiHeadAttention(task.heads, task.width // task.heads)",
                "CausalAttention(task.heads, task.width)",
            ),
            Edit("model.py", "attention(y, y, use_causal_mask=True)", "attention(y)"),
        ),
        cause="The heads are reshaped to (batch, T, width) without being transposed back to "
        "(batch, T, heads, size), which mixes positions: a token gets what later ones read, so the "
        "model sees the answer in training and can't write one.",
        file="model.py",
        named=r"(?i)later|future|causal|(see|read|look|depend|attend)s?.{0,60}(next|after|following|answer|target)"
        r"|leak|transpos",
    ),
    Fault(
        name="relu on a standardized prediction",
        starter="tabular_regression",
        kind=kinds.MODEL,
        edits=(
            Edit(
                "model.py",
                "layers.Dense(1, dtype=floatx)(",
                'layers.Dense(1, activation="relu", dtype=floatx)(',
            ),
        ),
        cause='activation="relu" of the last layer, before the label\'s mean is added, allows no '
        "prediction below the mean, and half of the labels are.",
        file="model.py",
        named=r"(?i)relu|(below|less than|smaller than|under|at least|above).{0,80}|activation|negative"
        r"|range|never (predict|reach)|can't reach|clip",
    ),
    Fault(
        name="layer scale in a tf.Variable",
        kind=kinds.MODEL,
        edits=(
            after("model.py", "import numpy as np\n", "import tensorflow as tf\n"),
            before("model.py", "# TODO(4)", LAYER_SCALE),
            after(
                "model.py",
                '        x = layers.Activation("relu")(x)\n',
                '        branch = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)\n'
                "        x = x + LayerScale(filters)(branch)\n",
            ),
        ),
        cause="Keras 3 doesn't see a plain tf.Variable of a layer: it is neither trained nor among "
        "the weights, so the residual branches stay scaled by 1e-4 for ever (use add_weight).",
        file="model.py",
        named=r"(?i)tf\.Variable|add_weight|(variable|factor|weight).{0,80}(not|never|n't|isn't|no).{0,40}"
        r"(train|track|save|chang|see|belong|optim|model|part)|(untrained|untracked)",
    ),
    Fault(
        name="augmenting noise also when predicting",
        kind=kinds.EVALUATION,
        edits=(
            before(
                "model.py",
                "# TODO(4)",
                "class Noise(keras.layers.Layer):\n"
                '    """Gaussian noise on the features."""\n'
                "\n"
                "    def __init__(self, deviation: float) -> None:\n"
                "        super().__init__()\n"
                "        self.deviation = deviation\n"
                "        self.seeds = keras.random.SeedGenerator(1)\n"
                "\n"
                "    def call(self, x: Any) -> Any:\n"
                '        """Any shape."""\n'
                "        noise = keras.random.normal(keras.ops.shape(x), dtype=x.dtype, seed=self.seeds)\n"
                "        return x + self.deviation * noise\n"
                "\n"
                "\n",
            ),
            Edit(
                "model.py",
                "    x = layers.Flatten()(x)\n",
                "    x = Noise(0.5)(layers.Flatten()(x))\n",
            ),
        ),
        cause="The layer has no `training` argument and adds noise in validation, test and the "
        "exported model, too: results are worse and differ from call to call.",
        file="model.py",
        named=r"(?i)noise|random|training=False|(twice|again|each time|every time|call).{0,80}(differ|other)"
        r"|(differ|other).{0,80}(twice|again|time|call)|not (deterministic|the same)|evaluat|predict",
    ),
)

# ---------------------------------------------------------------- the loss

ENTROPY = """\
    probabilities = tf.nn.softmax(predictions)
    entropy = -tf.reduce_sum(probabilities * tf.nn.log_softmax(predictions), axis=-1)
"""
LOSS_FAULTS = (
    Fault(
        name="entropy bonus averaged on each replica",
        kind=kinds.LOSS_SCALING,
        edits=(
            Edit(
                "steps.py",
                at.MAIN_LOSS,
                ENTROPY + "    # Confident predictions are punished (Pereyra et al., 2017).\n"
                "    loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss - 0.1 * tf.reduce_mean(entropy)}\n',
                "train_step",
            ),
        ),
        cause="The entropy's mean over a replica's own rows is summed over all replicas (and "
        "micro-batches), so its factor is N times 0.1 on N replicas; padding counts in it, too.",
        file="steps.py",
        named=r"(?i)replica|micro-?batch|accumulat|global_count|reduce_mean|padding|weight.{0,20}0",
    ),
    Fault(
        name="weighted mean by the weights of one replica",
        starter="tabular_regression",
        kind=kinds.WEIGHTS,
        edits=(
            Edit(
                "losses.py",
                at.AVERAGE,
                "    # A weighted mean: divided by the sum of weights.\n"
                "    total = tf.reduce_sum(per_example * weights)\n"
                "    loss = tf.math.divide_no_nan(total, tf.reduce_sum(weights))\n"
                "    loss /= replica.num_replicas * replica.num_microbatches\n",
            ),
        ),
        cause="Each replica (and micro-batch) divides by the sum of its own weights and the means are "
        "averaged: examples weigh more where their neighbors weigh less, so N replicas don't train "
        "like one, and a replica with padding only counts like a full one.",
        file="losses.py",
        named=r"(?i)replica|global_count|micro-?batch|accumulat|denominator|divided by|sum of.{0,20}weights",
    ),
    Fault(
        name="own compute_loss without the L2 of the layers",
        kind=kinds.REGULARIZATION,
        edits=(Edit("losses.py", at.REGULARIZED, "    return loss\n"),),
        cause="The kernel regularizers of the layers are in model.losses, which nothing adds: --l2 "
        "has no effect.",
        file="losses.py",
        named=r"(?i)regulari|model\.losses|l2",
    ),
    Fault(
        name="labels squeezed and predictions not",
        starter="tabular_regression",
        kind=kinds.LOSS_SCALING,
        edits=(
            Edit(
                "losses.py",
                at.SQUARED_ERROR,
                "    def huber(error: tf.Tensor) -> tf.Tensor:\n"
                "        size = tf.abs(error)\n"
                "        return tf.where(size < 1, 0.5 * tf.square(error), size - 0.5)\n\n",
            ),
            Edit(
                "losses.py",
                at.OF_STANDARDIZED,
                "        labels = tf.squeeze(labels, axis=-1)\n"
                "        return tf.reduce_mean(huber((labels - predictions) / LABEL_DEVIATION), axis=-1)\n",
            ),
        ),
        cause="Labels (batch,) minus predictions (batch, 1) broadcast to (batch, batch): every "
        "prediction is compared with all labels, so the model learns their median only.",
        file="losses.py",
        named=r"(?i)broadcast|\(batch, batch\)|shape|squeeze|other(s'| examples?| rows?)|depends? on.{0,40}"
        r"(other|batch)|every (label|example|row)|all (labels|examples)|constant|same prediction|interact",
    ),
    Fault(
        name="sigmoid in the model and from_logits",
        kind=kinds.MODEL,
        edits=(
            before("data.py", "Arrays = tuple", HOLES + "\n"),
            *_with_arrays(
                *PROPERTIES,
                "return {split: (x, properties(y)) for split, (x, y) in arrays.items()}",
            ),
            *THREE_LOGITS,
            Edit(
                "model.py",
                at.CLASS_LOGITS,
                at.CLASS_LOGITS.replace("CLASSES,", 'CLASSES, activation="sigmoid",'),
            ),
            Edit("losses.py", at.SPARSE, at.BINARY),
            Edit("metrics.py", at.ACCURACY, '{"accuracy": keras.metrics.BinaryAccuracy()}'),
        ),
        cause="The model ends with a sigmoid and the loss takes its outputs for logits, which makes "
        "another sigmoid: probabilities of the loss stay within 0.5 and 0.73.",
        file="losses.py",
        named=r"(?i)from_logits|sigmoid|logits|probabilit",
    ),
)

# ---------------------------------------------------------------- metrics and evaluation
RMSE = (
    Edit("metrics.py", '"r2": r2}', '"r2": r2, "rmse": keras.metrics.Mean()}'),
    after(
        "steps.py",
        at.UPDATE_R2,
        "    squares = weights * tf.square(labels - predictions)[:, 0]\n"
        "    mean = tf.math.divide_no_nan(tf.reduce_sum(squares), tf.reduce_sum(weights))\n"
        '    run.metrics["rmse"].update_state(tf.sqrt(mean))\n',
        "*",
    ),
)
METRIC_FAULTS = (
    Fault(
        name="token accuracy that counts prompts and padding",
        starter="language_model",
        kind=kinds.METRICS,
        edits=(
            Edit(
                "steps.py",
                at.UPDATE_TOKEN_ACCURACY,
                at.UPDATE_TOKEN_ACCURACY.replace(", weights", ""),
                "*",
            ),
        ),
        cause="Without the weights the accuracy counts padding, rows of weight 0 and the prompts, "
        "which aren't trained.",
        file="steps.py",
        named=r"(?i)token_accuracy.{0,120}(weight|padding|sample_weight)|weights?|padding|sample_weight",
    ),
    Fault(
        name="mean of the root mean squared errors of batches",
        starter="tabular_regression",
        kind=kinds.METRICS,
        edits=RMSE,
        cause="A mean of the roots of batches isn't the root of the mean, and a replica's short or "
        "empty batch counts like a full one: the result depends on batch size and replicas.",
        file="steps.py",
        named=r"(?i)rmse",
    ),
    Fault(
        name="batch normalization that never trains",
        kind=kinds.MODEL,
        edits=(
            Edit(
                "model.py",
                "layers.LayerNormalization()(x)  # per example, so replicas needn't exchange statistics",
                "layers.BatchNormalization()(x)",
            ),
            Edit("steps.py", "run.model(images, training=True)", "run.model(images)", "train_step"),
        ),
        cause="Called without training=True the model trains in inference mode: batch normalization "
        "neither normalizes nor moves its statistics, and dropout drops nothing.",
        file="steps.py",
        named=r"(?i)training=True|training mode|inference|dropout|BatchNormalization|batch.?norm|moving|statistics",
    ),
)

# ---------------------------------------------------------------- optimizer, callbacks, config
PLATEAU = '''    best, waited = float("inf"), 0

    def lower_on_plateau(event: Event) -> None:
        """Halve the learning rate after three validations without a better loss."""
        nonlocal best, waited
        loss = event.history[-1]["validation_loss"]
        best, waited = (loss, 0) if loss < best else (best, waited + 1)
        if waited >= 3:
            optimizer = event.run.optimizers["main"]
            optimizer.learning_rate = event.learning_rates["main"] / 2
            waited = 0

    return [every_validation(lower_on_plateau)]
'''
RAMP = '''    def ramp_up(event: Event) -> None:
        """The penalty reaches its full weight after ten epochs."""
        PENALTY["weight"] = 0.2 * min(1.0, event.epoch / 10)

    return [every_epochs(1, ramp_up)]
'''
OTHER_FAULTS = (
    Fault(
        name="boundaries in epochs",
        kind=kinds.OPTIMIZER,
        edits=(
            Edit(
                "optimizer.py",
                "keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)",
                "keras.optimizers.schedules.PiecewiseConstantDecay(\n"
                "        [20, 30], [task.learning_rate, task.learning_rate / 10, task.learning_rate / 100]\n"
                "    )  # of 40 epochs",
            ),
        ),
        cause="The schedule counts steps, not epochs: the learning rate falls to a hundredth after 30 "
        "of several hundred steps, in the third epoch.",
        file="optimizer.py",
        named=r"(?i)learning rate|schedule|boundar|decay",
    ),
    Fault(
        name="image gradients with noise of each replica's own",
        kind=kinds.OPTIMIZER,
        edits=(
            Edit(
                "optimizer.py",
                at.GRADIENTS,
                "    # Neelakantan et al. (2015): noise helps to leave flat regions.\n"
                "    return [g + tf.random.normal(g.shape, stddev=1e-3, dtype=g.dtype) for g in gradients]\n",
                "process_gradients",
            ),
        ),
        cause="process_gradients runs on each replica after the sum, and each draws another noise: "
        "the replicas' weights drift apart; nor is the noise seeded, so no run can be reproduced.",
        file="optimizer.py",
        named=r"(?i)process_gradients|noise|random|stateless|drift|not (the same|reproduc)|seed"
        r"|replicas?.{0,80}(differ|other|apart|same)",
    ),
    Fault(
        name="plateau counted in local variables",
        kind="callbacks",
        edits=(
            Edit(
                "callbacks.py",
                at.CALLBACK_IMPORT,
                at.CALLBACK_IMPORT.replace("Callback", "Callback, Event, every_validation"),
            ),
            Edit("callbacks.py", at.NO_CALLBACKS, PLATEAU),
            Edit("optimizer.py", at.ADAM, "    return keras.optimizers.Adam(task.learning_rate)\n"),
        ),
        cause="The best loss and the number of validations waited are no part of a checkpoint: a "
        "resumed run starts with infinity and 0 and lowers the learning rate at other epochs.",
        file="callbacks.py",
        named=r"(?i)resum|checkpoint|get_state|set_state|state|closure|local|nonlocal",
    ),
    Fault(
        name="ramp of a Python number",
        kind="callbacks",
        edits=(
            after(
                "losses.py",
                at.CONFIG_IMPORT,
                "\n"
                'PENALTY = {"weight": 0.0}  # of confident predictions; callbacks.py ramps it up\n',
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss\n",
                "from .losses import PENALTY, compute_loss\n",
            ),
            before(
                "steps.py",
                at.MAIN_LOSS,
                ENTROPY + '    per_example -= PENALTY["weight"] * entropy\n',
                "train_step",
            ),
            Edit("callbacks.py", at.CALLBACK_IMPORT, at.IMPORT_FOR_EPOCHS),
            after("callbacks.py", at.CONFIG_IMPORT, "from .losses import PENALTY\n"),
            Edit("callbacks.py", at.NO_CALLBACKS, RAMP),
        ),
        cause="The step is traced once, with the weight 0.0 as a constant: what the callback sets "
        "later has no effect, the penalty is never there (use a tf.Variable or "
        "replica.step).",
        file="callbacks.py",
        named=r"(?i)trac(e|ed|ing)|python|constant|no effect|variable|resum|PENALTY|ramp|callback",
    ),
    Fault(
        name="monitors the loss and takes the largest",
        kind=kinds.EVALUATION,
        edits=(
            Edit(
                "config.py",
                'monitor: str = "validation_accuracy"',
                'monitor: str = "validation_loss"',
            ),
        ),
        cause="--monitor is now the validation loss, and larger_is_better is still true: the weights "
        "of the worst validation are kept as the best, tested and exported.",
        file="config.py",
        named=r"(?i)larger.is.better|smaller|larger|worst|monitor",
    ),
)
FAULTS: tuple[Fault, ...] = (
    *DATA_FAULTS,
    *MODEL_FAULTS,
    *LOSS_FAULTS,
    *METRIC_FAULTS,
    *OTHER_FAULTS,
)

# ---------------------------------------------------------------- correct tasks
PARTIAL_LABELS = Change(
    name="multi-label with unknown labels",
    edits=(
        before("data.py", "Arrays = tuple", HOLES + "UNKNOWN = 0.3\n\n"),
        *_with_arrays(
            "rng = np.random.default_rng(0)",
            "",
            *PROPERTIES,
            "found = {split: (x, properties(y), np.ones((len(y), 3), np.float32))"
            " for split, (x, y) in arrays.items()}",
            "# Some training labels are unknown: their weight is 0.",
            'images, labels, weights = found["train"]',
            'known = (rng.random(weights.shape) >= UNKNOWN).astype("float32")',
            'return found | {"train": (images, labels * known, known)}',
        ),
        Edit(
            "losses.py",
            at.CROSS_ENTROPY,
            at.BINARY_CROSS_ENTROPY
            + "    def of_each_label(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
            '        """Both (batch, labels) -> (batch, labels)."""\n'
            "        return cross_entropy(labels[..., tf.newaxis], logits[..., tf.newaxis])\n"
            "\n"
            '    return {"main": of_each_label}\n',
        ),
        Edit(
            "metrics.py",
            at.ACCURACY,
            '{"accuracy": keras.metrics.BinaryAccuracy(threshold=0.0)}  # logits',
        ),
        Edit(
            "steps.py",
            at.UPDATE_ACCURACY,
            at.UPDATE_ACCURACY.replace(
                "labels, predictions, weights",
                "\n        labels[..., tf.newaxis], predictions[..., tf.newaxis], weights\n    ",
            ),
            "*",
        ),
        *THREE_LOGITS,
    ),
)

QUANTILES = Change(
    name="three quantiles that can't cross, and their coverage",
    starter="tabular_regression",
    edits=(
        Edit(
            "model.py",
            at.PREDICTION,
            "    x = layers.Dense(3, dtype=floatx)(layers.Concatenate()([x, hidden]))\n"
            "    middle, down, up = ops.split(x, 3, axis=-1)\n"
            "    below, above = middle - ops.softplus(down), middle + ops.softplus(up)\n"
            "    x = ops.concatenate([middle, below, above], axis=-1)  # (batch, 3)\n",
        ),
        Edit(
            "losses.py",
            at.SQUARED_ERROR,
            "    levels = (0.5, 0.1, 0.9)  # of the model's outputs\n\n",
        ),
        Edit(
            "losses.py",
            at.OF_STANDARDIZED,
            "        error = (labels - predictions) / LABEL_DEVIATION  # (batch, 3)\n"
            "        level = tf.constant(levels, error.dtype)\n"
            "        return tf.reduce_sum(tf.maximum(level * error, (level - 1) * error), axis=-1)\n",
        ),
        Edit("metrics.py", '"r2": r2}', '"r2": r2, "coverage": keras.metrics.Mean()}'),
        Edit(
            "steps.py",
            at.UPDATE_MAE,
            at.UPDATE_MAE.replace("predictions", "predictions[:, :1]"),
            "*",
        ),
        Edit(
            "steps.py",
            at.UPDATE_R2,
            at.UPDATE_R2.replace("predictions", "predictions[:, :1]")
            + "    inside = (labels >= predictions[:, 1:2]) & (labels <= predictions[:, 2:])\n"
            '    run.metrics["coverage"].update_state(inside[:, 0], weights)\n',
            "*",
        ),
    ),
)

VISITS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Patients with 2 to 12 visits each, and their value half a year after the last.

    Inputs are {"visits": float32 (n, VISITS, 2), months since the visit before and the value, zeros
    after the last; "number": int64 (n,)}, labels float32 (n, 1), in training weights float32 (n,).
    """
    random = np.random.default_rng(SPLIT_SEED)
    visits, numbers, labels = [], [], []
    for _ in range(1_200):
        number, slope, value = random.integers(2, VISITS + 1), random.normal(0, 4), 150.0
        value += random.normal(0, 40)
        rows = np.zeros((VISITS, 2), np.float32)
        for i in range(number):
            months = random.uniform(1, 6) if i else 0.0
            value += slope * months
            rows[i] = months, value + random.normal(0, 3)
        visits.append(rows)
        numbers.append(number)
        labels.append([value + 6 * slope])
    inputs = {"visits": np.stack(visits), "number": np.array(numbers, np.int64)}
    targets = np.array(labels, np.float32)

    def examples(first: int, end: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        return {name: part[first:end] for name, part in inputs.items()}, targets[first:end]

    patients, values = examples(0, 800)
    return {
        "train": (patients, values, np.ones(800, np.float32)),
        "validation": examples(800, 1_000),
        "test": examples(1_000, 1_200),
    }
'''
VISIT_ADAPT = '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Means and variances of the visits that are there, and of the labels."""
    inputs, labels, _ = datasets["train"]
    visits = inputs["visits"]
    there = visits[np.arange(visits.shape[1]) < inputs["number"][:, np.newaxis]]
    return {
        "mean": there.mean(axis=0),
        "variance": there.var(axis=0),
        "visits": visits.shape[1],
        "label_mean": labels.mean(axis=0),
        "label_variance": labels.var(axis=0),
    }
'''
VISIT_MODEL = (
    '''def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs {"visits": float (batch, VISITS, 2), "number": int64 (batch,)} -> float32 (batch, 1)."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    most = int(adapted["visits"])
    inputs = {
        "visits": keras.Input((most, 2), dtype="float32", name="visits"),
        "number": keras.Input((), dtype="int64", name="number"),
    }
    mean, variance = adapted["mean"], adapted["variance"]
    x = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(inputs["visits"])
    is_there = ops.expand_dims(inputs["number"], 1) > ops.arange(most, dtype="int64")
    x = layers.GRU(task.width)(x, mask=is_there)  # its state after the last visit
    x = layers.Dropout(task.dropout / 3)(x)
    x = layers.Dense(1, dtype=floatx)(x)
'''
    + at.UNSCALED
)
RAGGED = Change(
    name="visits of patients, padded and masked",
    starter="tabular_regression",
    edits=(
        after("data.py", "FOLDS = 5\n", "VISITS = 12  # at most\n"),
        Edit("data.py", "", VISITS, "create_datasets"),
        Edit("model.py", "", VISIT_ADAPT, "adapt"),
        Edit("model.py", "", VISIT_MODEL, "create_model"),
        NO_SAMPLES,
        NO_PREDICTIONS,
    ),
)

RECURRENT = Change(
    name="recurrent language model with tied embeddings and z-loss",
    starter="language_model",
    edits=(
        Edit(
            "data.py",
            "        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)  # (batch, T)\n",
            "        picked = (tf.gather(part, form, axis=1, batch_dims=1) for part in batch)\n"
            "        tokens, targets, weights = picked  # (batch, T)\n"
            "        # Some letters of the prompt can't be read.\n"
            "        own = tf.random.experimental.stateless_fold_in(seed, 1)\n"
            "        drawn = tf.random.stateless_uniform(tokens.shape, own)\n"
            "        before = tf.cumsum(tf.cast(tokens == PROMPT_END, tf.int32), axis=1) == 0\n"
            "        unreadable = before & (drawn < 0.02)\n"
            "        return tf.where(unreadable, UNREADABLE, tokens), targets, weights\n",
        ),
        before("data.py", "PROMPT_END, LINE_END =", 'UNREADABLE = ord("?")\n'),
        Edit(
            "model.py",
            at.TRANSFORMER,
            """\
    embedding = layers.ReversibleEmbedding(TOKENS, task.width, reverse_dtype=keras.config.floatx())
    x = embedding(tokens)  # (batch, T, width)
    for _ in range(task.layers):
        y = layers.LayerNormalization()(x)
        y = layers.GRU(2 * task.width, return_sequences=True)(y)
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
    x = layers.LayerNormalization()(x)
""",
        ),
        Edit(
            "model.py",
            '    logits = layers.Dense(TOKENS, dtype=keras.config.floatx(), name="logits")(x)\n',
            "    logits = embedding(x, reverse=True)\n",
        ),
        Edit(
            "losses.py",
            at.CROSS_ENTROPY,
            "    cross_entropy = " + at.SPARSE + "\n\n"
            "    def with_z_loss(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
            '        """The cross-entropy, and a little for logits far from log-probabilities."""\n'
            "        z = tf.reduce_logsumexp(logits, axis=-1)\n"
            "        return cross_entropy(targets, logits) + 1e-4 * tf.square(z)\n\n"
            '    return {"main": with_z_loss}\n',
        ),
        Edit(
            "config.py",
            'monitor: str = "validation_exact_match"',
            'monitor: str = "validation_token_accuracy"',
        ),
    ),
)

ORDERED = '''class OrderedGrades(keras.layers.Layer):
    """Log-probabilities of ordered grades: a score between thresholds (proportional odds)."""

    def __init__(self, grades: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.grades = grades

    def build(self, shape: Any) -> None:
        """The first threshold, and the steps to the others, as softplus makes them."""
        start = keras.initializers.Constant(-(self.grades - 2) / 2)
        self.first = self.add_weight(shape=(1,), initializer=start, name="first")
        one = keras.initializers.Constant(0.5413)  # softplus gives 1
        self.steps = self.add_weight(shape=(self.grades - 2,), initializer=one, name="steps")

    def call(self, score: Any) -> Any:
        """Float (batch, 1) -> (batch, grades)."""
        ops = keras.ops
        steps = ops.softplus(self.steps)
        thresholds = ops.concatenate([self.first, self.first + ops.cumsum(steps)])
        margin = thresholds - score  # (batch, grades - 1)
        upper, lower = ops.log_sigmoid(margin), ops.log_sigmoid(-margin)
        # sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - exp(b - a))
        between = upper[:, 1:] + lower[:, :-1] + ops.log(-ops.expm1(-steps))
        return ops.concatenate([upper[:, :1], between, lower[:, -1:]], axis=-1)

    def get_config(self) -> dict[str, Any]:
        """What makes it again."""
        return super().get_config() | {"grades": self.grades}


'''
GRADES = Change(
    name="ordered grades of ink by proportional odds",
    edits=(
        *_with_arrays(
            "# The grade of an image: the tenth of the training images that has about as much ink.",
            "def ink(images: np.ndarray) -> np.ndarray:",
            "    return images.sum(axis=(1, 2, 3))",
            "",
            'limits = np.quantile(ink(arrays["train"][0]), np.arange(0.1, 0.95, 0.1))',
            "return {",
            '    split: (images, np.searchsorted(limits, ink(images)).astype("int64"))',
            "    for split, (images, _) in arrays.items()",
            "}",
        ),
        Edit("config.py", "shift: float = 0.5", "shift: float = 0.0"),
        before("model.py", "# TODO(4)", ORDERED),
        Edit(
            "model.py",
            at.CLASS_LOGITS,
            'score = layers.Dense(1, dtype=keras.config.floatx(), name="score")(x)\n'
            "    logits = OrderedGrades(CLASSES, dtype=keras.config.floatx())(score)",
        ),
        Edit(
            "metrics.py",
            at.ACCURACY,
            "{**" + at.ACCURACY + ', "grades_off": keras.metrics.MeanAbsoluteError()}',
        ),
        after(
            "steps.py",
            at.UPDATE_ACCURACY,
            "    # The median grade makes the smallest error.\n"
            "    below = tf.cumsum(tf.nn.softmax(predictions), axis=-1) < 0.5\n"
            "    median = tf.reduce_sum(tf.cast(below, tf.float32), axis=-1)\n"
            "    grade = tf.cast(labels, tf.float32)\n"
            '    run.metrics["grades_off"].update_state(grade[:, tf.newaxis], median[:, tf.newaxis], weights)\n',
            "*",
        ),
    ),
)

TASKS: tuple[Change, ...] = (PARTIAL_LABELS, QUANTILES, RAGGED, RECURRENT, GRADES)
