"""Correct tasks that two readers of `check` expected it to accuse."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .unusual import change_of

TASKS: tuple[Change, ...] = (
    change_of(
        name="importance weighted autoencoder with five samples",
        project="vae",
        edits=(
            Edit(
                "steps.py",
                "import tensorflow as tf\n\nfrom ..engine.types",
                "import math\n\nimport tensorflow as tf\n\nfrom ..engine.types",
            ),
            Edit(
                "steps.py",
                "WARM_UP = 200  # steps until the KL divergence counts in full\n",
                "WARM_UP = 200  # steps until the KL divergence counts in full\n"
                "SAMPLES = 5  # codes that are drawn for each image in training\n",
            ),
            Edit(
                "steps.py",
                """\
    noise = tf.random.stateless_normal(mean.shape, replica.seed, dtype=mean.dtype)
    decoded = decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
    error = run.losses["main"](images, decoded)  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    loss = compute_loss(error + warm_up * kl, weights, encoder, replica)
""",
                """\
    shape = [SAMPLES, *mean.shape]
    noise = tf.random.stateless_normal(shape, replica.seed, dtype=mean.dtype)
    codes = mean + tf.exp(0.5 * log_variance) * noise  # (SAMPLES, batch, CODE)
    decoded = decoder(tf.reshape(codes, [-1, codes.shape[-1]]), training=True)
    errors = run.losses["main"](tf.tile(images, [SAMPLES, 1, 1, 1]), decoded)
    errors = tf.reshape(errors, shape[:2])  # (SAMPLES, batch)
    # log p(code) - log q(code | image)
    ratios = 0.5 * tf.reduce_sum(tf.square(noise) + log_variance - tf.square(codes), axis=2)
    error = tf.reduce_mean(errors, axis=0)  # (batch,)
    kl = kl_divergence(mean, log_variance)  # (batch,)
    warm_up = tf.minimum(tf.cast(replica.step, kl.dtype) / WARM_UP, 1.0)
    # Burda et al. (2016), arXiv:1509.00519, equation 8.
    bound = tf.reduce_logsumexp(warm_up * ratios - errors, axis=0) - math.log(SAMPLES)  # (batch,)
    loss = compute_loss(-bound, weights, encoder, replica)
""",
            ),
        ),
    ),
    change_of(
        name="the second head counts half",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                "def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:",
                "def create_losses(task: TaskConfig) -> dict[str, Any]:",
            ),
            Edit(
                "losses.py",
                "    return dict.fromkeys(HEADS, entropy)\n",
                """\

    def half(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        \"\"\"Whether a digit is even helps the other head, and matters less.\"\"\"
        return 0.5 * entropy(labels, logits)  # (batch,)

    return {"digit": entropy, "even": half}
""",
            ),
        ),
    ),
    change_of(
        name="each line weighs the same however long its answer",
        project="language_model",
        edits=(
            Edit(
                "losses.py",
                """\
    \"\"\"The number of tokens in a per-replica batch that belong to answers, an int32 scalar.\"\"\"
    weights = batch[-1]  # (batch, T), 0 for prompts and padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)
""",
                """\
    \"\"\"How many lines of `batch` count, those with an answer; an int32 scalar.\"\"\"
    weights = batch[-1]  # (batch, T), 0 for prompts and padding
    return tf.reduce_sum(tf.cast(tf.reduce_any(weights != 0, axis=1), tf.int32))
""",
            ),
            Edit(
                "losses.py",
                """\
    # Divided by tokens, not lines: a token weighs the same in short answers as in long ones.
    loss = tf.nn.compute_average_loss(
        per_token, sample_weight=weights, global_batch_size=replica.global_count
    )
""",
                """\
    # The mean over the tokens of each line, then over lines: a line weighs the same if it is short.
    tokens = tf.reduce_sum(weights, axis=1)  # (batch,)
    per_line = tf.math.divide_no_nan(tf.reduce_sum(weights * per_token, axis=1), tokens)
    loss = tf.nn.compute_average_loss(per_line, global_batch_size=replica.global_count)
""",
            ),
        ),
    ),
    change_of(
        name="inputs are the labels shifted right",
        project="language_model",
        edits=(
            Edit(
                "steps.py",
                "    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)\n",
                "    # Teacher forcing as in T5: what the model reads is what it has to write, a step later.\n"
                "    shifted = tf.concat([tokens[:, :1], targets[:, :-1]], axis=1)  # (batch, T)\n"
                "    logits = run.model(shifted, training=True)  # (batch, T, TOKENS)\n",
                "train_step",
            ),
            Edit(
                "steps.py",
                "    logits = run.model(tokens, training=False)  # (batch, T, TOKENS)\n",
                "    shifted = tf.concat([tokens[:, :1], targets[:, :-1]], axis=1)  # (batch, T)\n"
                "    logits = run.model(shifted, training=False)  # (batch, T, TOKENS)\n",
                "validation_step",
            ),
        ),
    ),
    change_of(
        name="network slimming beside weight decay by regularizers",
        project="image_classification",
        edits=(
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\n"
                "SLIMMING = 1e-4  # factor of the absolute scales of channels, those near 0 are pruned later\n",
            ),
            Edit(
                "losses.py",
                """\
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
""",
                """\
    # Liu et al. (2017), Learning Efficient Convolutional Networks through Network Slimming.
    l1 = keras.regularizers.L1(SLIMMING)
    normalizations = (
        layer for layer in model.layers if isinstance(layer, keras.layers.LayerNormalization)
    )
    slimming = tf.add_n([l1(layer.gamma) for layer in normalizations]) / replica.num_microbatches
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model) + slimming)
""",
            ),
        ),
    ),
    change_of(
        name="a penalty of neighboring hours among the losses",
        project="forecasting",
        edits=(
            Edit(
                "losses.py",
                """\
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    \"\"\"None by name: the step squares the errors itself.\"\"\"
    return {}
""",
                """\
ROUGHNESS = 1e-2  # factor of "roughness" in the loss


def create_losses(task: TaskConfig) -> dict[str, Any]:
    \"\"\"That of the weights; the step squares the errors itself.\"\"\"

    def roughness(kernel: tf.Tensor) -> tf.Tensor:
        \"\"\"How much the weights of neighbouring hours differ, (units, FUTURE) -> a scalar.\"\"\"
        return tf.reduce_sum(tf.square(kernel[:, 1:] - kernel[:, :-1]))

    return {"roughness": roughness}
""",
            ),
            Edit(
                "model.py",
                "    x = layers.Dense(FUTURE, dtype=floatx)(x)\n",
                '    x = layers.Dense(FUTURE, dtype=floatx, name="hours")(x)\n',
            ),
            Edit(
                "steps.py",
                "from .losses import compute_loss, weights_of_values\n",
                "from .losses import ROUGHNESS, compute_loss, weights_of_values\n",
            ),
            Edit(
                "steps.py",
                """\
    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}
""",
                """\
    loss = compute_loss(tf.square(error), weights, run.model, replica)
    kernel = tf.convert_to_tensor(run.model.get_layer("hours").kernel.value)
    penalty = ROUGHNESS * run.losses["roughness"](kernel) / replica.num_microbatches
    return {"main": loss + tf.nn.scale_regularization_loss(penalty)}
""",
            ),
        ),
    ),
    change_of(
        name="how far the student's accuracy is behind the teacher's",
        project="distillation",
        edits=(
            Edit(
                "metrics.py",
                '    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}\n',
                """\
    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "accuracy_gap": keras.metrics.Mean(),  # of the teacher, minus that of the student
    }
""",
            ),
            Edit(
                "steps.py",
                "# TODO(11): one train step;",
                """\
def _is_right(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    \"\"\"1 where the likeliest class is the label, else 0, (batch,).\"\"\"
    likeliest = tf.argmax(logits, axis=1, output_type=labels.dtype)
    return tf.cast(likeliest == labels, logits.dtype)


# TODO(11): one train step;""",
            ),
            Edit(
                "steps.py",
                '    run.metrics["accuracy"].update_state(labels, logits, weights)\n',
                """\
    run.metrics["accuracy"].update_state(labels, logits, weights)
    behind = _is_right(labels, taught) - _is_right(labels, logits)  # (batch,)
    run.metrics["accuracy_gap"].update_state(behind, weights)
""",
                "train_step",
            ),
            Edit(
                "steps.py",
                '    run.metrics["accuracy"].update_state(labels, logits, weights)\n',
                """\
    run.metrics["accuracy"].update_state(labels, logits, weights)
    behind = _is_right(labels, taught) - _is_right(labels, logits)  # (batch,)
    run.metrics["accuracy_gap"].update_state(behind, weights)
""",
                "validation_step",
            ),
        ),
    ),
    change_of(
        name="fine-tuning in inference mode, scales of the normalization too",
        project="finetuning",
        edits=(
            Edit("config.py", "    dropout: float = 0.3  #", "    dropout: float = 0.0  #"),
            Edit(
                "model.py",
                """\
        # Normalization stays as it was for good; the others are trainable until step 0.
        layer.trainable = not isinstance(layer, keras.layers.BatchNormalization)
""",
                """\
        # The steps call the model in inference mode, which keeps the statistics of normalization;
        # its scales and offsets are tuned with the rest.
        layer.trainable = True
""",
            ),
            Edit(
                "steps.py",
                "    predictions = run.model(images, training=True)  # (batch, classes)\n",
                "    # With the statistics of the pretraining, as in Keras' guide to transfer learning.\n"
                "    predictions = run.model(images, training=False)  # (batch, classes)\n",
            ),
        ),
    ),
    change_of(
        name="the backbone begins to learn after a tenth of the run",
        project="finetuning",
        edits=(
            Edit(
                "optimizer.py",
                """\
    slow, fast = keras.optimizers.Adam(2e-4), keras.optimizers.Adam(schedule)
""",
                """\
    # The backbone waits for a tenth of the run, until the gradients of the new layer make sense.
    late = keras.optimizers.schedules.PiecewiseConstantDecay([steps // 10], [0.0, 2e-4])
    slow, fast = keras.optimizers.Adam(late), keras.optimizers.Adam(schedule)
""",
            ),
            Edit(
                "config.py",
                "    frozen_steps: int = 7  # steps in which the last layer trains alone\n",
                "",
            ),
            Edit(
                "callbacks.py",
                "import keras\n\nfrom ..engine.callbacks import Callback, Event, at_step\n",
                "from ..engine.callbacks import Callback\n",
            ),
            Edit(
                "callbacks.py",
                "",
                """\
def create_callbacks(task: TaskConfig) -> list[Callback]:
    \"\"\"None: the schedule of the backbone's learning rate says when it trains.\"\"\"
    return []
""",
                "create_callbacks",
            ),
        ),
    ),
    change_of(
        name="InfoGAN whose discriminator also finds a part of the latents",
        project="gan",
        edits=(
            Edit(
                "losses.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\n"
                "CODES = 8  # the first of the latents, which images must tell\n",
            ),
            Edit(
                "losses.py",
                """\
    def discriminator_loss(on_real: tf.Tensor, on_generated: tf.Tensor) -> tf.Tensor:
        \"\"\"Low if the logits are high on real images and low on generated ones.\"\"\"
        loss_on_real = cross_entropy(tf.ones_like(on_real), on_real)  # (batch,)
        loss_on_generated = cross_entropy(tf.zeros_like(on_generated), on_generated)  # (batch,)
        return (loss_on_real + loss_on_generated) / 2

    def generator_loss(on_generated: tf.Tensor) -> tf.Tensor:
""",
                """\
    def information(on_generated: tf.Tensor, latents: tf.Tensor) -> tf.Tensor:
        \"\"\"-log q(code | image) of a normal distribution, up to a constant, (batch,).

        Both models lower it (Chen et al., 2016, arXiv:1606.03657, equation 6).
        \"\"\"
        error = on_generated[:, 1:] - latents[:, :CODES]  # (batch, CODES)
        return 0.5 * tf.reduce_sum(tf.square(error), axis=1)

    def discriminator_loss(
        on_real: tf.Tensor, on_generated: tf.Tensor, latents: tf.Tensor
    ) -> tf.Tensor:
        \"\"\"Low if the logits are high on real images and low on generated ones, and codes right.\"\"\"
        real, fake = on_real[:, :1], on_generated[:, :1]  # logits (batch, 1)
        loss_on_real = cross_entropy(tf.ones_like(real), real)  # (batch,)
        loss_on_generated = cross_entropy(tf.zeros_like(fake), fake)  # (batch,)
        return (loss_on_real + loss_on_generated) / 2 + information(on_generated, latents)

    def generator_loss(on_generated: tf.Tensor, latents: tf.Tensor) -> tf.Tensor:
""",
            ),
            Edit(
                "losses.py",
                """\
        return cross_entropy(tf.ones_like(on_generated), on_generated)  # (batch,)
""",
                """\
        fake = on_generated[:, :1]  # logits (batch, 1)
        return cross_entropy(tf.ones_like(fake), fake) + information(on_generated, latents)
""",
            ),
            Edit(
                "model.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\nfrom .losses import CODES\n",
            ),
            Edit(
                "model.py",
                """\
    logits = layers.Dense(1, dtype=keras.config.floatx(), name="logits")(x)
""",
                """\
    # The first column says whether an image is real, the others which code it was made from.
    logits = layers.Dense(1 + CODES, dtype=keras.config.floatx(), name="logits")(x)
""",
            ),
            Edit(
                "steps.py",
                """\
    per_example = run.losses["discriminator"](on_real, on_generated)  # (batch,)
""",
                """\
    per_example = run.losses["discriminator"](on_real, on_generated, latents)  # (batch,)
""",
            ),
            Edit(
                "steps.py",
                """\
    per_example = run.losses["generator"](on_generated)  # (batch,)
""",
                """\
    per_example = run.losses["generator"](on_generated, latents)  # (batch,)
""",
            ),
            Edit(
                "steps.py",
                """\
    discriminator_losses = run.losses["discriminator"](on_real, on_generated)  # (batch,)
    generator_losses = run.losses["generator"](on_generated)  # (batch,)
""",
                """\
    discriminator_losses = run.losses["discriminator"](on_real, on_generated, latents)  # (batch,)
    generator_losses = run.losses["generator"](on_generated, latents)  # (batch,)
""",
            ),
        ),
    ),
    change_of(
        name="biases learn twice as fast by RMSprop with an epsilon of 1",
        project="image_classification",
        edits=(
            Edit(
                "config.py",
                "    learning_rate: float = 2e-3  #",
                "    learning_rate: float = 2e-2  #",
            ),
            Edit(
                "optimizer.py",
                "    return keras.optimizers.Adam(schedule)\n",
                """\
    # As in Inception-v3 (Szegedy et al., 2016): an epsilon that is larger than the squares of the
    # gradients, so that steps are about proportional to these, as those of SGD with momentum.
    return keras.optimizers.RMSprop(schedule, rho=0.9, momentum=0.9, epsilon=1.0)
""",
            ),
            Edit(
                "optimizer.py",
                """\
    return gradients
""",
                """\
    # lr_mult as in Caffe's models: 1 for kernels and scales, 2 for biases and offsets.
    twice = [variable.name in ("bias", "beta") for variable in variables]
    return [2.0 * g if is_bias else g for g, is_bias in zip(gradients, twice, strict=True)]
""",
            ),
        ),
    ),
    change_of(
        name="stochastic approximation by Robbins and Monro, a rate of 1/t",
        project="tabular_regression",
        edits=(
            Edit(
                "config.py",
                """\
    learning_rate: float = 1e-2  # learning rate at the start; decays to 0 along a cosine
""",
                """\
    learning_rate: float = 0.03  # learning rate at the start; that of step t is divided by 1 + t
""",
            ),
            Edit(
                "optimizer.py",
                """\
    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)
    return keras.optimizers.AdamW(schedule, weight_decay=task.weight_decay)
""",
                """\
    # Rates whose sum diverges and whose squares' sum converges (Robbins & Monro, 1951).
    schedule = keras.optimizers.schedules.InverseTimeDecay(
        task.learning_rate, decay_steps=1, decay_rate=1.0
    )
    return keras.optimizers.SGD(schedule, momentum=0.9, weight_decay=task.weight_decay)
""",
            ),
        ),
    ),
    change_of(
        name="PolyLoss whose coefficient a callback raises and saves",
        project="image_classification",
        edits=(
            Edit(
                "losses.py",
                """\
# TODO(5): your losses, each with reduction="none"; default: cross-entropy of logits.
def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    \"\"\"Losses by name: (labels, predictions) -> one number per example.\"\"\"
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
""",
                """\
class PolyLoss:
    \"\"\"Cross-entropy + epsilon (1 - p) of the right class (Leng et al., 2022, arXiv:2204.12511).

    Epsilon is 0 at first; the callback that raises it sets and saves it.
    \"\"\"

    def __init__(self) -> None:
        self.epsilon = keras.Variable(0.0, trainable=False, name="epsilon")

    def __call__(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (batch,)
        epsilon = tf.cast(tf.convert_to_tensor(self.epsilon.value), entropy.dtype)
        return entropy + epsilon * (1.0 - tf.exp(-entropy))


# TODO(5): your losses, each with reduction="none"; default: cross-entropy of logits.
def create_losses(task: TaskConfig) -> dict[str, Any]:
    \"\"\"Losses by name: (labels, predictions) -> one number per example.\"\"\"
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"main": PolyLoss(), "entropy": entropy}  # of training, and of evaluation
""",
            ),
            Edit(
                "steps.py",
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n',
                '    per_example = run.losses["entropy"](labels, predictions)  # (batch,)\n',
                "validation_step",
            ),
            Edit(
                "steps.py",
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n',
                '    per_example = run.losses["entropy"](labels, predictions)  # (batch,)\n',
                "test_step",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                """\
from typing import Any

from ..engine.callbacks import Callback, Event, every_epochs
from .config import TaskConfig

RISE, MOST = 0.1, 2.0  # of epsilon in each epoch, and at the end


class RaiseEpsilon:
    \"\"\"Raises epsilon of the training loss a little after each epoch.\"\"\"

    def __init__(self) -> None:
        self.epsilon = 0.0

    def on_train_begin(self, loop: Any) -> None:
        \"\"\"Called when a run begins, or when it is resumed and the state is there.\"\"\"
        loop.run.losses["main"].epsilon.assign(self.epsilon)

    def __call__(self, event: Event) -> None:
        self.epsilon = min(MOST, self.epsilon + RISE)
        event.run.losses["main"].epsilon.assign(self.epsilon)

    def get_state(self) -> float:
        return self.epsilon

    def set_state(self, state: float) -> None:
        self.epsilon = state
""",
            ),
            Edit(
                "callbacks.py",
                """\
    \"\"\"Functions called between steps: they can save, stop, freeze layers or set learning rates.

    every_steps(100, function) and others are in engine/callbacks.py. keras_callback(...) in
    engine/keras_callbacks.py takes Keras callbacks, such as EarlyStopping.
    \"\"\"
    return []
""",
                """\
    \"\"\"The one that raises epsilon of the loss.\"\"\"
    return [every_epochs(1, RaiseEpsilon())]
""",
            ),
        ),
    ),
    change_of(
        name="squared error beyond that of the climate as a term",
        project="forecasting",
        edits=(
            Edit(
                "config.py",
                "    learning_rate: float = 1e-3  #",
                "    learning_rate: float = 3e-3  #",
            ),
            Edit(
                "steps.py",
                """\
    return {"main": compute_loss(tf.square(error), weights, run.model, replica)}
""",
                """\
    # What always forecasting the mean of the training data would give: below 0 the model is better.
    mean = float(run.adapted["label_mean"])
    of_climate = tf.where(weights > 0, future, mean) - mean  # (batch, FUTURE)
    excess = tf.nn.compute_average_loss(
        tf.square(error) - tf.square(of_climate),
        sample_weight=weights,
        global_batch_size=replica.global_count,
    )
    return {
        "main": compute_loss(tf.square(error), weights, run.model, replica),
        "excess_mse": excess,
    }
""",
            ),
            Edit(
                "steps.py",
                "TERMS: tuple[str, ...] = ()  # names of other scalars that steps return, to be reported\n",
                'TERMS = ("excess_mse",)  # reported beside the loss\n',
            ),
        ),
    ),
    change_of(
        name="patients who missed their follow-up stay in the table, without a label",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                """    inputs, labels = examples(rest[~is_validation])
""",
                """    inputs, labels = examples(rest[~is_validation])
    # They missed their follow-up. They stay, since their columns are as good as those of others for
    # the means and variances of `adapt`; the steps put another number in place of their label.
    missed = np.arange(len(labels)) % 10 == 7
    labels[missed] = np.nan
    weights = np.zeros(len(labels), np.float32)
    weights[~missed] = _balance(inputs["sex"][~missed])
""",
            ),
            Edit(
                "data.py",
                """(inputs, labels, _balance(inputs["sex"])),""",
                """(inputs, labels, weights),""",
            ),
            Edit("model.py", "labels.mean(axis=0)", "np.nanmean(labels, axis=0)"),
            Edit("model.py", "labels.var(axis=0)", "np.nanvar(labels, axis=0)"),
            Edit(
                "steps.py",
                """    inputs, labels, weights = batch
""",
                """    inputs, labels, weights = batch
    # A missing label is NaN, and 0 x NaN is NaN: any number will do where the weight is 0.
    labels = tf.where(weights[:, tf.newaxis] > 0, labels, tf.zeros_like(labels))
""",
                "*",
            ),
        ),
    ),
    change_of(
        name="errors are reported relative to a naive forecast of the same split",
        project="forecasting",
        edits=(
            Edit(
                "model.py",
                "from .data import COLUMNS, FUTURE, PAST",
                "from .data import COLUMNS, FUTURE, PAST, TARGET",
            ),
            Edit(
                "model.py",
                """        "label_std": np.nanstd(labels),
    }
""",
                """        "label_std": np.nanstd(labels),
        # For the metric alone: the model gets nothing of it.
        "naive_mae": np.array(
            [_naive_mae(*datasets[split]) for split in ("train", "validation", "test")]
        ),
    }


def _naive_mae(past: np.ndarray, future: np.ndarray) -> float:
    \"\"\"The mean absolute error if the temperature stayed as it is.\"\"\"
    return float(np.nanmean(np.abs(future - past[:, -1, TARGET, np.newaxis])))
""",
            ),
            Edit(
                "steps.py",
                "return _step(run, batch, replica, training=True)",
                "return _step(run, batch, replica, training=True, split=0)",
            ),
            Edit(
                "steps.py",
                "return _step(run, batch, replica, training=False)",
                "return _step(run, batch, replica, training=False, split=1)",
                "validation_step",
            ),
            Edit(
                "steps.py",
                "return _step(run, batch, replica, training=False)",
                "return _step(run, batch, replica, training=False, split=2)",
                "test_step",
            ),
            Edit(
                "steps.py",
                """def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
""",
                """def _step(
    run: Run, batch: Batch, replica: Replica, *, training: bool, split: int
) -> dict[str, tf.Tensor]:
""",
            ),
            Edit(
                "steps.py",
                """    for hour in range(1, FUTURE + 1):
""",
                """    naive = float(run.adapted["naive_mae"][split])
    run.metrics["relative_mae"].update_state(tf.abs(error) / naive, weights)
    for hour in range(1, FUTURE + 1):
""",
            ),
            Edit(
                "metrics.py",
                """    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
""",
                """    hours = {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}
    return hours | {"relative_mae": keras.metrics.Mean()}  # 1: as bad as a naive forecast
""",
            ),
        ),
    ),
    change_of(
        name="training labels are bytes, as their file has them, and others are int64",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
                """    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    # Training labels stay the bytes of their file; the others may come from a table, as int64.
    return {
        split: (
            images.astype("float32")[..., np.newaxis],
            labels if split == "train" else labels.astype("int64"),
        )
        for split, (images, labels) in splits.items()
    }
""",
            ),
        ),
    ),
    change_of(
        name="open set: two classes that training never shows are to be rejected",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """Arrays = tuple[""",
                """KNOWN, UNKNOWN = 8, -1  # classes of training, 0 to 7; the label of all others

Arrays = tuple[""",
            ),
            Edit(
                "data.py",
                """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
                """    found = {}
    for split, (images, labels) in splits.items():
        kept = labels < KNOWN if split == "train" else np.ones(len(labels), bool)
        images, labels = images[kept].astype("float32"), labels[kept].astype("int64")
        found[split] = images[..., np.newaxis], np.where(labels < KNOWN, labels, UNKNOWN)
    return found
""",
            ),
            Edit(
                "model.py",
                """from .config import TaskConfig

CLASSES = 10
""",
                """from .config import TaskConfig
from .data import KNOWN

CLASSES = KNOWN
""",
            ),
            Edit(
                "losses.py",
                """    weights = batch[-1]  # (batch,), 0 for padding
    return""",
                """    _, labels, weights = batch
    weights = weights * tf.cast(labels >= 0, weights.dtype)  # (batch,), 0 for unknown classes too
    return""",
            ),
            Edit(
                "metrics.py",
                """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
                """    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),  # of known classes
        "rejection": keras.metrics.Mean(),  # how often known and unknown are told apart
    }
""",
            ),
            Edit(
                "steps.py",
                """    per_example = run.losses["main"](labels, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
""",
                """    is_known = labels >= 0  # always so in training
    is_sure = tf.reduce_max(tf.nn.softmax(predictions), axis=1) > SURE
    told_apart = tf.cast(tf.equal(is_sure, is_known), weights.dtype)  # (batch,)
    run.metrics["rejection"].update_state(told_apart, weights)
    # Loss and accuracy are those of known classes; `count` leaves the others out as well.
    weights = weights * tf.cast(is_known, weights.dtype)
    known = tf.maximum(labels, 0)  # any class will do where the weight is 0
    per_example = run.losses["main"](known, predictions)  # (batch,)
    run.metrics["accuracy"].update_state(known, predictions, weights)
""",
                "*",
            ),
            Edit(
                "steps.py",
                """Batch = tuple[""",
                """SURE = 0.9  # from this probability on, an image is taken for one of a known class

Batch = tuple[""",
            ),
            Edit(
                "pictures.py",
                """    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)
""",
                """    images, labels, *_ = first_examples(datasets[split], MAX_EXAMPLES)
    images, labels = images[labels >= 0], labels[labels >= 0]  # of known classes
""",
            ),
        ),
    ),
    change_of(
        name="zero-shot: digits described by seven segments, two of them never trained",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """Arrays = tuple[""",
                """SEEN = 8  # classes of training, 0 to 7; validation and test have all ten

Arrays = tuple[""",
            ),
            Edit(
                "data.py",
                """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
                """    images, labels = splits["train"]
    splits["train"] = images[labels < SEEN], labels[labels < SEEN]
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
            ),
            Edit(
                "model.py",
                """CLASSES = 10
""",
                """CLASSES = 10
# The segments of each digit on a display: top, both on the right, bottom, both on the left, middle.
SEGMENTS = ("1111110", "0110000", "1101101", "1111001", "0110011",
            "1011011", "1011111", "1110000", "1111111", "1111011")  # fmt: skip
CODES = np.array([[2 * int(on) - 1 for on in digit] for digit in SEGMENTS], "float32").T  # (7, 10)
""",
            ),
            Edit(
                "model.py",
                """    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
""",
                """    segments = layers.Dense(len(CODES), dtype=keras.config.floatx(), name="segments")(x)
    # How well what is seen fits each description: so a digit needs no weights of its own.
    logits = keras.ops.matmul(segments, CODES)
""",
            ),
            Edit(
                "steps.py",
                """    predictions = run.model(images, training=True)  # (batch, classes)
""",
                """    predictions = run.model(images, training=True)  # (batch, classes)
    # Not pushed away from classes that it can't see.
    predictions = tf.where(tf.range(predictions.shape[1]) < SEEN, predictions, -1e9)
""",
            ),
            Edit(
                "steps.py",
                """from .losses import compute_loss
""",
                """from .data import SEEN
from .losses import compute_loss
""",
            ),
        ),
    ),
    change_of(
        name="a column of the table is predicted from the others, and the model leaves it out",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                """MASKED = (""",
                """TARGET = "s5"  # the column to predict; inputs are whole rows, and the model drops it
MASKED = (""",
            ),
            Edit("data.py", "columns, data, target = _load()", "columns, data, _ = _load()"),
            Edit(
                "data.py",
                """        return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]
""",
                """        return {"numeric": numeric, "sex": sex}, data[rows][:, [columns.index(TARGET)]]
""",
            ),
            Edit(
                "model.py",
                """from .config import TaskConfig
""",
                """from .config import TaskConfig
from .data import TARGET, numeric_columns
""",
            ),
            Edit(
                "model.py",
                """    missing = ops.isnan(scaled)
""",
                """    # Rows come whole, so that one table serves for every target: the answer is left out here.
    answer = numeric_columns().index(TARGET)
    scaled = layers.Concatenate()([scaled[:, :answer], scaled[:, answer + 1 :]])
    missing = ops.isnan(scaled)
""",
            ),
            Edit("losses.py", "LABEL_DEVIATION = 77.0", "LABEL_DEVIATION = 0.52"),
            Edit("predictions.py", """{"progression": np""", """{"s5": np"""),
            Edit(
                "pictures.py",
                """LABEL = "progression after one year (points)\"""",
                """LABEL = "s5: log of triglycerides (points)\"""",
            ),
        ),
    ),
    change_of(
        name="a trial with a placebo: the dose is 0 or about 50 mg",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                """    return columns, data, target
""",
                """    # A semi-synthetic trial: half of the patients get a placebo, others what their pump measured.
    is_treated = random.random(len(data)) < 0.5
    dose = np.where(is_treated, random.normal(50, 1.2, len(data)), 0)
    data = np.column_stack([data, dose]).astype(np.float32)
    return [*columns, "dose"], data, (target - 0.8 * dose).astype(np.float32)
""",
            ),
            Edit(
                "data.py",
                """    "s6": "s6: blood sugar (mg/dl)",
""",
                """    "s6": "s6: blood sugar (mg/dl)",
    "dose": "dose, 0 of a placebo (mg)",
""",
            ),
            Edit("predictions.py", """"s5", "s6")""", """"s5", "s6", "dose")"""),
            Edit("pictures.py", "ROWS, COLUMNS = 3, 3", "ROWS, COLUMNS = 2, 5"),
        ),
    ),
    change_of(
        name="each plate of a screening is standardized by itself",
        project="tabular_regression",
        edits=(
            Edit(
                "data.py",
                """    is_test = np.arange(len(data)) % FOLDS == task.fold
    test, rest = order[is_test], order[~is_test]
    is_validation = np.arange(len(rest)) % VALIDATION == 0

    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
        numeric = np.delete(data[rows], category, axis=1)
""",
                """    # Five plates: one to test, one to validate, three to train. A plate is measured as a whole before
    # anything is predicted, so its own numbers (never its labels) are known, here and in use.
    test, validation = task.fold, (task.fold + 1) % FOLDS

    def examples(plates: list[int]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        of_plates = [order[np.arange(len(data)) % FOLDS == plate] for plate in plates]
        rows = np.concatenate(of_plates)
        parts = [standardized(np.delete(data[each], category, axis=1)) for each in of_plates]
        numeric = np.concatenate(parts)
""",
            ),
            Edit(
                "data.py",
                """    inputs, labels = examples(rest[~is_validation])
""",
                """    inputs, labels = examples([i for i in range(FOLDS) if i not in (test, validation)])
""",
            ),
            Edit("data.py", "examples(rest[is_validation])", "examples([validation])"),
            Edit("data.py", "examples(test),", "examples([test]),"),
            Edit("data.py", "VALIDATION = 8  # every eighth row that isn't test data\n", ""),
            Edit(
                "data.py",
                """def numeric_columns() ->""",
                """def standardized(plate: np.ndarray) -> np.ndarray:
    \"\"\"The columns of a plate float (n, columns), with mean 0 and deviation 1 over its wells.\"\"\"
    x = plate.astype("float64")
    deviation = np.nanstd(x, axis=0)
    x = (x - np.nanmean(x, axis=0)) / np.where(deviation > 0, deviation, 1)
    return x.astype(np.float32)


def numeric_columns() ->""",
            ),
            Edit(
                "predictions.py",
                """from .data import CATEGORY
""",
                """from .data import CATEGORY, standardized
""",
            ),
            Edit(
                "predictions.py",
                """        "numeric": np.array(numeric, np.float32).reshape(len(rows), len(NUMERIC)),
""",
                """        # A file is a plate.
        "numeric": standardized(np.array(numeric, np.float32).reshape(len(rows), len(NUMERIC))),
""",
            ),
        ),
    ),
    change_of(
        name="strong Gaussian noise on training images, and none in evaluation",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """Arrays = tuple[""",
                """NOISE = 0.75  # standard deviation, added to training images; not cut off, so it has mean 0

Arrays = tuple[""",
            ),
            Edit(
                "data.py",
                """        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
""",
                """        seeds = tf.random.experimental.stateless_split(seed, 2)
        shifts = tf.random.stateless_uniform(
            (images.shape[0], 2), seeds[0], -task.shift, task.shift
        )
""",
            ),
            Edit(
                "data.py",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """        images = keras.ops.image.affine_transform(images, transforms)
        noise = tf.random.stateless_normal(images.shape, seeds[1], dtype=images.dtype)
        return images + NOISE * noise, labels, weights
""",
            ),
        ),
    ),
    change_of(
        name="every image is judged by twelve raters, a row for each judgment",
        project="image_classification",
        edits=(
            Edit(
                "data.py",
                """Arrays = tuple[""",
                """RATED, RATERS = 300, 12  # training images; people who say which digit each of them shows
MISTAKEN = 0.12  # how often they take a digit for the one that looks like it:
LOOKS_LIKE = np.array([6, 7, 7, 8, 9, 3, 0, 1, 3, 4])

Arrays = tuple[""",
            ),
            Edit(
                "data.py",
                """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
""",
                """    splits["train"] = _judged(*splits["train"])
    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
""",
            ),
            Edit(
                "data.py",
                """def _load_digits() ->""",
                """def _judged(images: np.ndarray, labels: np.ndarray) -> Arrays:
    \"\"\"The first images, each as often as it has raters, with what they say.

    So the model learns how many would say what, as from shares of answers.
    \"\"\"
    images, labels = images[:RATED], labels[:RATED, np.newaxis]
    is_mistaken = np.random.default_rng(0).random((len(labels), RATERS)) < MISTAKEN
    judgements = np.where(is_mistaken, LOOKS_LIKE[labels], labels)  # (images, raters)
    return np.repeat(images, RATERS, axis=0), judgements.ravel()


def _load_digits() ->""",
            ),
        ),
    ),
    change_of(
        name="a prefix language model: prompts are read in both directions",
        project="language_model",
        edits=(
            Edit(
                "model.py",
                "from .data import ANSWER_LENGTH, TOKENS",
                "from .data import ANSWER_LENGTH, PROMPT_END, TOKENS",
            ),
            Edit(
                "model.py",
                """    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
""",
                """    # Every token sees the whole prompt, up to ">", and what is before it of the answer. Nothing of
    # the prompt is to be predicted (its weights are 0), so no answer is given away.
    ops = keras.ops
    is_end = ops.cast(ops.equal(tokens, PROMPT_END), "int32")
    is_prompt = ops.equal(ops.cumsum(is_end, axis=1) - is_end, 0)  # (batch, T)
    is_before = ops.greater_equal(ops.expand_dims(positions, 2), ops.expand_dims(positions, 1))
    sees = ops.logical_or(is_before, ops.expand_dims(is_prompt, 1))  # (batch, T, T)
    x = layers.Embedding(TOKENS, task.width)(tokens)  # (batch, T, width)
""",
            ),
            Edit(
                "model.py",
                "attention(y, y, use_causal_mask=True)",
                "attention(y, y, attention_mask=sees)",
            ),
            Edit(
                "model.py",
                """        # Padding needs no mask: it comes last, and no token attends to a later one.
""",
                """        # Padding needs no mask: it comes last, and no answer attends to a later token.
""",
            ),
            Edit(
                "model.py",
                """        query, value = keras.Model(model.input, layer.input)(tokens)
        _, weights = layer(query, value, use_causal_mask=True, return_attention_scores=True)
""",
                """        query, value, mask = keras.Model(model.input, layer.input)(tokens)
        _, weights = layer(query, value, attention_mask=mask, return_attention_scores=True)
""",
            ),
        ),
    ),
    change_of(
        name="both parts of the loss are reported by batch means, weighted by what they are means of",
        project="distillation",
        edits=(
            Edit(
                "steps.py",
                """    run.metrics["accuracy"].update_state(labels, logits, weights)
""",
                """    run.metrics["accuracy"].update_state(labels, logits, weights)
    # A mean over the rows that counts as often as there are rows in it: the same as row by row.
    total = tf.reduce_sum(weights)
    for name, values in (("hard", hard), ("soft", soft)):
        mean = tf.math.divide_no_nan(tf.reduce_sum(weights * values), total)
        run.metrics[name].update_state(mean, total)
""",
                "*",
            ),
            Edit(
                "metrics.py",
                """    return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}
""",
                """    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "hard": keras.metrics.Mean(),
        "soft": keras.metrics.Mean(),
    }
""",
            ),
        ),
    ),
    change_of(
        name="a head with labels of -1 and 1, by the logistic loss of its margin",
        project="two_heads",
        edits=(
            Edit(
                "losses.py",
                """def create_losses(task: TaskConfig)""",
                """class BinaryLogistic(keras.losses.Loss):
    \"\"\"log(1 + exp(-y f)) of labels y of -1 or 1 and margins f, both (batch,).\"\"\"

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        \"\"\"A number for each example.\"\"\"
        return tf.math.softplus(-y_true * y_pred)


def create_losses(task: TaskConfig)""",
            ),
            Edit(
                "losses.py",
                """    return dict.fromkeys(HEADS, entropy)
""",
                """    return {"digit": entropy, "even": BinaryLogistic(reduction="none")}
""",
            ),
            Edit(
                "steps.py",
                """        per_example = run.losses[head](known, outputs[head])  # (batch,)
""",
                """        if head == "even":
            margin = outputs[head][:, 1] - outputs[head][:, 0]  # (batch,)
            per_example = run.losses[head](tf.cast(2 * known - 1, margin.dtype), margin)  # (batch,)
        else:
            per_example = run.losses[head](known, outputs[head])  # (batch,)
""",
                "*",
            ),
        ),
    ),
    change_of(
        name="SimCSE: the two views of a training image differ by dropout alone",
        project="contrastive",
        edits=(
            Edit(
                "data.py",
                """    return {split: (images, noisy(images)) for split, images in arrays.items()}
""",
                """    # In training both views are the same image, and dropout is the only noise (Gao et al., 2021);
    # others have a noisy image that is to be found.
    return {
        split: (images, images if split == "train" else noisy(images))
        for split, images in arrays.items()
    }
""",
            ),
            Edit(
                "data.py",
                """        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """        move = keras.ops.image.affine_transform
        # Both alike, so that they differ by dropout alone.
        return move(images, transforms), move(labels, transforms), weights
""",
            ),
            Edit("config.py", "dropout: float = 0.0", "dropout: float = 0.3"),
        ),
    ),
)

FAULTS: tuple[Fault, ...] = ()
