"""Faults in how losses are scaled, weighted, counted and regularized."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Edit, Fault, before, train_weights

OF_TOKENS = at.AVERAGE.replace("per_example", "per_token")
PER_EXAMPLE = at.PER_EXAMPLE.lstrip()
TRAINED = at.MAIN_LOSS.strip()


def average(other: str) -> Edit:
    """Another average of per-example losses in compute_loss."""
    return Edit("losses.py", at.AVERAGE, other)


SCALING = (
    Fault(
        kind=kinds.LOSS_SCALING,
        name="the mean over the batch is divided by the batch size again",
        edits=(
            average(
                "    loss = tf.reduce_mean(per_example * weights)\n"
                "    loss /= tf.cast(replica.global_count, loss.dtype)\n"
            ),
        ),
        file="losses.py",
        cause="the loss is averaged twice: a mean, then a division by the count",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="tf.reduce_mean over the replica's rows, as in a tutorial for one GPU",
        edits=(average("    loss = tf.reduce_mean(per_example * weights)\n"),),
        file="losses.py",
        cause="the loss is divided by the rows of one replica instead of the global count",
        named=r"by all rows of the batch.*averaged over itself",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a batch size of 32 that was written by hand and stayed",
        starter="tabular_regression",
        edits=(
            before("losses.py", "LABEL_DEVIATION = 77.0", "BATCH_SIZE = 32\n"),
            average("    loss = tf.reduce_sum(per_example * weights) / BATCH_SIZE\n"),
        ),
        file="losses.py",
        cause="the loss is divided by a constant 32 and not by the global count",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="the losses of a batch are added up and never divided",
        starter="segmentation",
        edits=(average("    loss = tf.reduce_sum(weights * per_example)\n"),),
        file="losses.py",
        cause="the loss is a sum over the batch; it is not divided by the global count",
        named=r"however many examples count: it is a sum",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="the loss is multiplied by the number of replicas, to undo an average nobody makes",
        edits=(before("losses.py", at.REGULARIZED, "    loss *= replica.num_replicas\n"),),
        file="losses.py",
        cause="the loss is multiplied by the number of replicas",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="the loss is divided by the number of replicas as well",
        starter="tabular_regression",
        edits=(
            Edit(
                "steps.py",
                TRAINED,
                "loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss / replica.num_replicas}',
                "train_step",
            ),
        ),
        file="steps.py",
        cause="the loss is divided by the number of replicas, though it is a part of a sum",
        named=r"divided by the number of replicas, which",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="divided by the examples of this replica that count",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "global_batch_size=replica.global_count",
                "global_batch_size=tf.math.count_nonzero(weights)",
            ),
        ),
        file="losses.py",
        cause="the loss is divided by the count of one replica instead of the global count",
        named=r"averaged over itself; use replica\.global_count",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="the losses of the GAN skip compute_loss and take their mean",
        starter="gan",
        edits=(
            Edit(
                "steps.py",
                '"discriminator": compute_loss(per_example, weights, discriminator, replica)',
                '"discriminator": tf.reduce_mean(per_example)',
                "discriminator_step",
            ),
            Edit(
                "steps.py",
                '"generator": compute_loss(per_example, weights, generator, replica)',
                '"generator": tf.reduce_mean(per_example)',
                "generator_step",
            ),
        ),
        file="steps.py",
        cause="the loss is a mean over one replica's rows, padding included",
        named=r"weights aren't used, so padding trains.*averaged over itself",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a sum divided by the batch size of the paper",
        starter="gan",
        edits=(
            Edit(
                "losses.py",
                "global_batch_size=replica.global_count",
                "global_batch_size=tf.constant(256)",
            ),
        ),
        file="losses.py",
        cause="the loss is divided by a constant 256 and not by the global count",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="the mean of each line, and then the count of tokens",
        starter="language_model",
        edits=(
            Edit(
                "losses.py",
                OF_TOKENS,
                "    per_line = tf.math.divide_no_nan(\n"
                "        tf.reduce_sum(per_token * weights, axis=1), tf.reduce_sum(weights, axis=1)\n"
                "    )\n"
                "    loss = tf.nn.compute_average_loss(\n"
                "        per_line, global_batch_size=replica.global_count\n"
                "    )\n",
            ),
        ),
        file="losses.py",
        cause="the loss is averaged twice: over the tokens of a line, then by the count of tokens",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="the loss of an image is the sum over its pixels",
        starter="segmentation",
        edits=(
            Edit(
                "losses.py",
                "    return tf.math.divide_no_nan(tf.reduce_sum(weighted, axis=[1, 2]), pixels)\n",
                "    return tf.reduce_sum(weighted, axis=[1, 2]) + 0.0 * pixels\n",
            ),
        ),
        file="losses.py",
        cause="the loss is a sum over pixels, not a mean: it is hundreds of times too large",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a loss scale for float16 that nothing divides by",
        starter="tabular_regression",
        edits=(
            before("losses.py", at.REGULARIZED, "    loss *= 1024.0  # float16 would underflow\n"),
        ),
        file="losses.py",
        cause="the loss is multiplied by 1024 and the gradients are never divided again",
    ),
    Fault(
        kind=kinds.LOSS_SCALING,
        name="a micro-average by hand: mean of the replica, divided by a guess of two replicas",
        edits=(average("    loss = tf.reduce_mean(per_example * weights) / 2  # two GPUs\n"),),
        file="losses.py",
        cause="the loss is divided by the replica's rows and a constant number of replicas",
        named=r"divided by a constant or by all rows.*averaged over itself",
    ),
)

WEIGHTING = (
    Fault(
        kind=kinds.WEIGHTS,
        name="the loss forgets the weights",
        edits=(
            average(
                "    loss = tf.nn.compute_average_loss(\n"
                "        per_example, global_batch_size=replica.global_count\n"
                "    )\n"
            ),
        ),
        file="losses.py",
        cause="the loss ignores the weights, so padding counts",
        named=r"a part of the loss ignores the weights",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="the mean absolute error forgets the weights",
        starter="tabular_regression",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["mae"].update_state(labels, predictions, weights)',
                'run.metrics["mae"].update_state(labels, predictions)',
                "*",
            ),
        ),
        file="steps.py",
        cause="the metric mae ignores the weights, so padding counts",
        named=r"the metric mae .* isn't given the weights",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="weights in the step, and again in compute_loss",
        starter="tabular_regression",
        edits=(
            Edit(
                "steps.py",
                PER_EXAMPLE,
                'per_example = weights * run.losses["main"](labels, predictions)  # (batch,)\n',
                "train_step",
            ),
        ),
        file="steps.py",
        cause="the weights are used twice in the loss",
        named=r"weights are used twice",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="squared weights",
        starter="tabular_regression",
        edits=(Edit("losses.py", "sample_weight=weights,", "sample_weight=tf.square(weights),"),),
        file="losses.py",
        cause="the weights enter the loss squared",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="a Keras loss gets sample_weight, and compute_loss the same weights",
        edits=(
            Edit(
                "steps.py",
                PER_EXAMPLE,
                'per_example = run.losses["main"](labels, predictions, sample_weight=weights)\n',
                "*",
            ),
            *train_weights("    weights = np.where(labels < 3, 2.5, 0.5)\n"),
        ),
        file="steps.py",
        cause="the weights are used twice in the loss",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="weights multiply the predictions",
        starter="tabular_regression",
        edits=(
            Edit(
                "steps.py",
                "predictions = run.model(inputs, training=True)  # (batch, 1)",
                "predictions = weights[:, tf.newaxis] * run.model(inputs, training=True)",
                "train_step",
            ),
        ),
        file="steps.py",
        cause="the weights are applied to the predictions",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="weights are normalized within the replica's rows",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "sample_weight=weights,",
                "sample_weight=weights / tf.reduce_mean(weights),",
            ),
        ),
        file="losses.py",
        cause="an example's weight depends on the other rows of its replica",
        named=r"divided by the sum of some weights",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="1 for what is masked, where the loss wants 1 for what counts",
        starter="language_model",
        edits=(Edit("losses.py", "sample_weight=weights,", "sample_weight=1.0 - weights,"),),
        file="losses.py",
        cause="the weights are inverted: prompts and padding are trained, answers are not",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="weights made from sorted rows, used for unsorted ones",
        starter="tabular_regression",
        edits=(Edit("data.py", '_balance(inputs["sex"])', '_balance(np.sort(inputs["sex"]))'),),
        file="data.py",
        cause="the weights belong to other rows than inputs and labels",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="mean intersection over union counts padded pixels",
        starter="segmentation",
        edits=(
            Edit(
                "steps.py",
                "update_state(labels, logits, pixel_weights(weights, labels))",
                "update_state(labels, logits)",
                "*",
            ),
            Edit("steps.py", "from .metrics import pixel_weights\n", ""),
        ),
        flags=("--global-batch-size", "80"),
        file="steps.py",
        cause="the metric mean_iou ignores the weights, so padding counts",
        named=r"validation_mean_iou .* or padding counts",
    ),
    Fault(
        kind=kinds.WEIGHTS,
        name="weights of zero become a small number, against a division by zero",
        edits=(
            Edit("losses.py", "sample_weight=weights,", "sample_weight=tf.maximum(weights, 0.1),"),
        ),
        flags=("--last-batch", "pad"),
        file="losses.py",
        cause="rows of weight zero count in the loss",
        named=r"rows of weight zero: .* with other rows of weight 0: a part of the loss",
    ),
)

COUNTING = (
    Fault(
        kind=kinds.DENOMINATORS,
        name="count counts lines, and the loss is one of tokens",
        starter="language_model",
        edits=(Edit("losses.py", at.COUNTED, "    return tf.shape(weights)[0]\n"),),
        file="losses.py",
        cause="count gives rows, while the loss adds up tokens; padding counts too",
        named=r"count doesn't look at the weights: padding counts",
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="count counts padding",
        edits=(Edit("losses.py", at.COUNTED, "    return tf.size(weights)\n"),),
        file="losses.py",
        cause="count counts rows of weight zero, so a short batch is divided by too much",
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="count truncates the sum of the weights",
        starter="tabular_regression",
        edits=(
            Edit("losses.py", at.COUNTED, "    return tf.cast(tf.reduce_sum(weights), tf.int32)\n"),
        ),
        file="losses.py",
        cause="count rounds a sum of weights down on each replica",
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="count is the global batch size on every replica",
        edits=(
            Edit("losses.py", at.COUNTED, "    return tf.constant(96) + 0 * tf.size(weights)\n"),
        ),
        file="losses.py",
        cause="count is a constant; it must count the rows of this replica's part",
        named=r"one half of the batch counts 96, the other 96, both together 96",
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="count counts pixels, though losses are already averaged over them",
        starter="segmentation",
        edits=(
            Edit(
                "losses.py",
                at.COUNTED,
                "    labels = batch[1]  # (batch, h, w)\n"
                "    counts = (labels != IGNORED) & (weights[:, tf.newaxis, tf.newaxis] != 0)\n"
                "    return tf.math.count_nonzero(counts, dtype=tf.int32)\n",
            ),
        ),
        file="losses.py",
        cause="the loss is averaged twice: over the pixels of an image, then by a count of pixels",
        named=r"averaged twice|divided twice|too small|counts pixels",
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="count counts every token that isn't padding, prompts too",
        starter="language_model",
        edits=(
            Edit(
                "losses.py",
                at.COUNTED,
                "    return tf.math.count_nonzero(batch[0], dtype=tf.int32)\n",
            ),
        ),
        file="losses.py",
        cause="count counts tokens of weight zero (prompts)",
    ),
    Fault(
        kind=kinds.DENOMINATORS,
        name="the rows of this replica, times the number of replicas",
        edits=(
            Edit(
                "losses.py",
                "global_batch_size=replica.global_count",
                "global_batch_size=tf.shape(per_example)[0] * replica.num_replicas",
            ),
        ),
        file="losses.py",
        cause="padding counts in the denominator: a short batch is divided by too much",
    ),
)

REGULARIZING = (
    Fault(
        kind=kinds.REGULARIZATION,
        name="L2 in the layers, and nobody adds it to the loss",
        edits=(Edit("losses.py", at.REGULARIZED, "    return loss\n"),),
        file="losses.py",
        cause="the model's regularization losses are not in the loss",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="L2 in compute_loss, and again in the step",
        edits=(
            Edit(
                "steps.py",
                TRAINED,
                "loss = compute_loss(per_example, weights, run.model, replica)\n"
                "    penalty = tf.nn.scale_regularization_loss(tf.add_n(run.model.losses))\n"
                '    return {"main": loss + penalty}',
                "train_step",
            ),
        ),
        flags=("--l2", "0.01"),
        file="steps.py",
        cause="the regularization is in the loss twice",
        named=r"it is in the loss 2 times",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="the sum of model.losses, as fit adds it",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                'layers.Dense(task.width, activation="relu")',
                'layers.Dense(task.width, activation="relu", kernel_regularizer="l2")',
            ),
            Edit("losses.py", at.REGULARIZED, "    return loss + tf.add_n(model.losses)\n"),
        ),
        file="losses.py",
        cause="regularization isn't scaled: it counts once per replica",
        named=r"regularization is counted once per replica",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="L2 divided by the batch size by hand",
        edits=(
            Edit(
                "losses.py",
                at.REGULARIZED,
                "    penalty = replica.regularization(model)\n"
                "    return loss + penalty / tf.cast(replica.global_count, penalty.dtype)\n",
            ),
        ),
        flags=("--l2", "0.01"),
        file="losses.py",
        cause="regularization is divided by the count of examples, not by the number of replicas",
        named=r"regulari[sz]ation|penalty",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="the discriminator's loss regularizes the generator",
        starter="gan",
        edits=(
            Edit(
                "model.py",
                'x = layers.Conv2D(filters, 4, strides=2, padding="same")(x)',
                'x = layers.Conv2D(filters, 4, 2, "same", kernel_regularizer="l2")(x)',
            ),
            Edit(
                "steps.py",
                "compute_loss(per_example, weights, discriminator, replica)",
                "compute_loss(per_example, weights, generator, replica)",
                "discriminator_step",
            ),
        ),
        file="steps.py",
        cause="the regularization of another model is added, and this one's isn't",
        named=r"layers have regularizers .* the loss doesn't hold them",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="the penalty multiplied by the replicas, because the helper divides",
        edits=(
            Edit(
                "losses.py",
                "scale_regularization_loss(replica.regularization(model))",
                "scale_regularization_loss(\n"
                "        replica.num_replicas * replica.regularization(model)\n"
                "    )",
            ),
        ),
        flags=("--l2", "0.01"),
        file="losses.py",
        cause="regularization grows with the number of replicas",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="the penalty is subtracted",
        edits=(Edit("losses.py", "    return loss + tf.nn.", "    return loss - tf.nn."),),
        flags=("--l2", "0.01"),
        file="losses.py",
        cause="regularization is subtracted, so that weights grow",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="l2 of 1e4 for 1e-4",
        edits=(Edit("config.py", "l2: float = 1e-4", "l2: float = 1e4"),),
        file="config.py",
        cause="regularization is thousands of times the loss of the data",
        named=r"regulari[sz]ation|\bl2\b",
    ),
    Fault(
        kind=kinds.REGULARIZATION,
        name="an activity penalty that is a sum over the rows, as large as the batch",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                'layers.Dense(task.width, activation="relu")(x)',
                'layers.Dense(task.width, activation="relu", activity_regularizer="l2")(x)',
            ),
        ),
        file="model.py",
        cause="an activity regularizer adds up the rows of a replica, padding included",
    ),
)

ACCUMULATING = (
    Fault(
        kind=kinds.ACCUMULATION,
        name="each micro-batch's loss is divided by their number",
        edits=(
            Edit(
                "steps.py",
                TRAINED,
                "loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss / replica.num_microbatches}',
                "train_step",
            ),
        ),
        flags=("--accumulate", "2"),
        file="steps.py",
        cause="losses of micro-batches are averaged, though the engine adds parts of one sum",
        named=r"divided by the number of micro-batches, but they are added",
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="the penalty is added once per micro-batch",
        edits=(Edit("losses.py", "replica.regularization(model)", "tf.add_n(model.losses)"),),
        flags=("--accumulate", "2", "--l2", "0.01"),
        file="losses.py",
        cause="regularization counts once per micro-batch",
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="summed gradients divided by four micro-batches",
        starter="tabular_regression",
        edits=(
            Edit(
                "optimizer.py", "    return gradients\n", "    return [g / 4 for g in gradients]\n"
            ),
        ),
        flags=("--accumulate", "4"),
        file="optimizer.py",
        cause="gradients are divided by the number of micro-batches, though they are a sum",
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="tokens of a micro-batch, times their number",
        starter="language_model",
        edits=(
            Edit(
                "losses.py",
                OF_TOKENS,
                "    tokens = tf.reduce_sum(weights) * replica.num_microbatches\n"
                "    loss = tf.reduce_sum(per_token * weights) / (tokens * replica.num_replicas)\n",
            ),
        ),
        flags=("--accumulate", "2"),
        file="losses.py",
        cause="the loss is divided by the count of one micro-batch: tokens weigh differently",
        named=r"divided by the sum of some weights",
    ),
    Fault(
        kind=kinds.ACCUMULATION,
        name="the mean of a micro-batch's rows",
        starter="gan",
        edits=(
            Edit(
                "losses.py",
                "global_batch_size=replica.global_count",
                "global_batch_size=tf.shape(per_example)[0] * replica.num_replicas",
            ),
        ),
        flags=("--accumulate", "2"),
        file="losses.py",
        cause="the loss is divided by the rows of a micro-batch: twice as large with two of them",
    ),
)

FAULTS = (*SCALING, *WEIGHTING, *COUNTING, *REGULARIZING, *ACCUMULATING)
