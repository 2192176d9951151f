"""Faults in metrics, optimizers and evaluation."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import SAME_AS_VALIDATION, Edit, Fault, after, before

ACCURACY = at.UPDATE_ACCURACY.strip()
RATE = "CosineDecay(task.learning_rate,"
IN_EVALUATION = "predictions = run.model(images, training=False)  # (batch, classes)"
RETURNED = at.MAIN_LOSS.strip()


def accuracy(other: str, where: str = "*") -> Edit:
    """Another update of the accuracy."""
    return Edit("steps.py", ACCURACY, other, where)


def processed(*lines: str) -> tuple[Edit, ...]:
    """Another process_gradients."""
    return (Edit("optimizer.py", at.GRADIENTS, "".join(f"    {line}\n" for line in lines)),)


MEASURED = (
    Fault(
        kind=kinds.METRICS,
        name="accuracy without weights",
        edits=(accuracy('run.metrics["accuracy"].update_state(labels, predictions)'),),
        file="steps.py",
        cause="the metric ignores the weights, so padding counts",
        named=r"validation_accuracy .* or padding counts",
    ),
    Fault(
        kind=kinds.METRICS,
        name="a threshold of 0.5 on logits",
        starter="gan",
        edits=(
            after(
                "metrics.py",
                "    return {\n",
                '        "real_accuracy": keras.metrics.BinaryAccuracy(),\n',
                "create_metrics",
            ),
            after(
                "steps.py",
                '    run.metrics["frechet"].update_state(images, generated, weights)\n',
                '    run.metrics["real_accuracy"].update_state('
                "tf.ones_like(on_real), on_real, weights)\n",
                "*",
            ),
        ),
        file="metrics.py",
        cause="the metric's threshold of 0.5 is for probabilities; logits need 0",
        named=r"real_accuracy .* compares logits with the threshold of a probability",
    ),
    Fault(
        kind=kinds.METRICS,
        name="the mean of the scaled loss, as a metric",
        starter="tabular_regression",
        edits=(
            Edit(
                "metrics.py",
                '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}\n',
                '    return {"mae": keras.metrics.Mean(), "r2": r2}\n',
            ),
            Edit(
                "steps.py",
                at.UPDATE_MAE,
                "    loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    run.metrics["mae"].update_state(loss)\n',
                "*",
            ),
        ),
        file="steps.py",
        cause="the metric is fed the scaled loss of one replica",
    ),
    Fault(
        kind=kinds.METRICS,
        name="a mean of the batches' means",
        starter="tabular_regression",
        edits=(
            Edit(
                "metrics.py",
                '    return {"mae": keras.metrics.MeanAbsoluteError(), "r2": r2}\n',
                '    return {"mae": keras.metrics.Mean(), "r2": r2}\n',
            ),
            Edit(
                "steps.py",
                at.UPDATE_MAE,
                '    run.metrics["mae"].update_state(tf.reduce_mean(tf.abs(labels - predictions)))\n',
                "*",
            ),
        ),
        file="steps.py",
        cause="the metric averages means of batches, padding included",
        named=r"the metric mae gets a single number.*feed it per-example values and weights",
    ),
    Fault(
        kind=kinds.METRICS,
        name="accuracy of each label with each prediction",
        edits=(
            Edit("metrics.py", "keras.metrics.SparseCategoricalAccuracy()", "keras.metrics.Mean()"),
            accuracy(
                "right = tf.equal(labels[:, tf.newaxis], tf.argmax(predictions, axis=1))\n"
                '    run.metrics["accuracy"].update_state(tf.cast(right, weights.dtype))'
            ),
        ),
        file="steps.py",
        cause="labels (batch, 1) and predictions (batch,) broadcast to (batch, batch)",
    ),
    Fault(
        kind=kinds.METRICS,
        name="updated twice in validation, once without weights",
        edits=(
            accuracy(
                ACCURACY + '\n    run.metrics["accuracy"].update_state(labels, predictions)',
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="the metric is updated twice in validation, so padding counts",
    ),
    Fault(
        kind=kinds.METRICS,
        name="the best weights are those with the lowest accuracy",
        edits=(
            Edit("config.py", "larger_is_better: bool = True", "larger_is_better: bool = False"),
        ),
        file="config.py",
        cause="larger_is_better is wrong for an accuracy: the worst weights are selected",
    ),
    Fault(
        kind=kinds.METRICS,
        name="a larger loss is better",
        starter="tabular_regression",
        edits=(
            Edit("config.py", "larger_is_better: bool = False", "larger_is_better: bool = True"),
        ),
        file="config.py",
        cause="larger_is_better is wrong for a loss: the worst weights are selected",
        named=r"larger_is_better in task/config\.py says so",
    ),
    Fault(
        kind=kinds.METRICS,
        name="whole lines must match, prompts too",
        starter="language_model",
        edits=(
            Edit(
                "metrics.py",
                "        is_answer = sample_weight != 0\n",
                "        is_answer = tf.ones_like(targets) > 0\n",
            ),
        ),
        file="metrics.py",
        cause="the metric ignores the weights: prompts and padded rows count",
    ),
    Fault(
        kind=kinds.METRICS,
        name="top ten of ten classes, called accuracy",
        edits=(
            Edit(
                "metrics.py",
                "keras.metrics.SparseCategoricalAccuracy()",
                "keras.metrics.SparseTopKCategoricalAccuracy(k=10)",
            ),
        ),
        file="metrics.py",
        cause="the metric is 1 whatever the model predicts",
    ),
    Fault(
        kind=kinds.METRICS,
        name="accuracy of the last batch only",
        edits=(accuracy('run.metrics["accuracy"].reset_state()\n    ' + ACCURACY),),
        file="steps.py",
        cause="the metric is reset in every step: it shows the last batch",
        named=r"\breset|last batch",
    ),
    Fault(
        kind=kinds.METRICS,
        name="R2 of labels given as predictions",
        starter="tabular_regression",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["r2"].update_state(labels, predictions, weights)',
                'run.metrics["r2"].update_state(predictions, labels, weights)',
                "*",
            ),
        ),
        file="steps.py",
        cause="labels and predictions are exchanged in a metric",
    ),
)

OPTIMIZING = (
    Fault(
        kind=kinds.OPTIMIZER,
        name="the learning rate divided by the replicas",
        edits=(
            Edit(
                "optimizer.py",
                f"    schedule = keras.optimizers.schedules.{RATE}",
                "    replicas = tf.distribute.get_strategy().num_replicas_in_sync\n"
                "    schedule = keras.optimizers.schedules.CosineDecay("
                "task.learning_rate / replicas,",
            ),
        ),
        file="optimizer.py",
        cause="the learning rate depends on the number of replicas",
        named=r"the learning rate is 0\.002 .* it depends on the number of replicas",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="the linear scaling rule for a global batch that doesn't grow",
        starter="tabular_regression",
        edits=(
            Edit(
                "optimizer.py",
                f"    schedule = keras.optimizers.schedules.{RATE} decay_steps=steps)\n",
                "    rate = task.learning_rate * tf.distribute.get_strategy().num_replicas_in_sync\n"
                "    schedule = keras.optimizers.schedules.CosineDecay(rate, decay_steps=steps)\n",
            ),
        ),
        file="optimizer.py",
        cause="the learning rate grows with the number of replicas",
        named=r"on one replica and 0\.02 on two: it depends on the number of replicas",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="the decay ends after a tenth of the run",
        edits=(Edit("optimizer.py", "decay_steps=steps)", "decay_steps=steps // 10)"),),
        file="optimizer.py",
        cause="the learning rate is 0 for nine tenths of the run",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a decay over 40 epochs, given as 40 steps",
        starter="language_model",
        edits=(Edit("optimizer.py", "decay_steps=steps - warmup,", "decay_steps=40,"),),
        file="optimizer.py",
        cause="decay_steps is a number of epochs: the learning rate is 0 after few steps",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="piecewise rates at epochs 10 and 20",
        starter="segmentation",
        edits=(
            Edit(
                "optimizer.py",
                at.SCHEDULE,
                "    rates = [task.learning_rate, 0.01 * task.learning_rate, 0.0]\n"
                "    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([10, 20], rates)\n",
            ),
        ),
        file="optimizer.py",
        cause="boundaries of the schedule are epochs, and it counts steps: the rate is soon 0",
        named=r"it counts train steps, not epochs",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a warm-up of ten thousand steps in a run of a thousand",
        starter="language_model",
        edits=(
            Edit(
                "optimizer.py", "warmup = int(task.warmup * steps)", "warmup = 10_000 * (steps > 0)"
            ),
            Edit("optimizer.py", "decay_steps=steps - warmup,", "decay_steps=steps,"),
        ),
        file="optimizer.py",
        cause="the warm-up is longer than the run: the learning rate never arrives",
        named=r"the warm-up is longer than the run",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradients with the other sign",
        edits=processed("return [-gradient for gradient in gradients]"),
        file="optimizer.py",
        cause="the gradients' sign is flipped: the loss is maximized",
        named=r"multiplies every gradient by -1",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a learning rate of 2 instead of 2e-3",
        edits=(Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 2.0"),),
        file="config.py",
        cause="the learning rate is a thousand times too large",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a learning rate of 1e-9",
        starter="tabular_regression",
        edits=(Edit("config.py", "learning_rate: float = 1e-2", "learning_rate: float = 1e-9"),),
        file="config.py",
        cause="the learning rate is so small that nothing is learned",
        named=r"too (low|small)",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradients divided by the replicas, after the sum",
        starter="tabular_regression",
        edits=processed(
            "replicas = tf.distribute.get_replica_context().num_replicas_in_sync",
            "return [gradient / replicas for gradient in gradients]",
        ),
        file="optimizer.py",
        cause="gradients are divided by the number of replicas, though their sum is the gradient",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradients of convolutions set to zero, from an old experiment",
        edits=processed(
            "return [",
            '    0.0 * g if "conv" in v.path else g',
            "    for g, v in zip(gradients, variables, strict=True)",
            "]",
        ),
        file="optimizer.py",
        cause="layers don't learn: process_gradients sets their gradients to zero",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradients of embeddings set to zero, by their path",
        starter="language_model",
        edits=processed(
            "layers = {v.path: g for v, g in zip(variables, gradients, strict=True)}",
            'zeros = [p for p in layers if "embedding" in p]',
            "return [0.0 * layers[v.path] if v.path in zeros else layers[v.path] for v in variables]",
        ),
        file="optimizer.py",
        cause="embeddings don't learn: process_gradients sets their gradients to zero",
        named=r"embedding/embeddings.*process_gradients sets it to 0",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="the generator's step isn't in TRAIN_STEPS",
        starter="gan",
        edits=(Edit("steps.py", at.GAN_STEPS, "TRAIN_STEPS = (discriminator_step,)"),),
        file="steps.py",
        cause="the generator never trains",
        named=r"TRAIN_STEPS|no (train )?step|never train|generator_step",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="weight decay in percent",
        starter="tabular_regression",
        edits=(Edit("config.py", "weight_decay: float = 1e-2", "weight_decay: float = 90.0"),),
        file="config.py",
        cause="weight decay takes most of each weight in every step",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="the gradient of predictions is clipped by its norm on each replica",
        edits=(
            before(
                "steps.py",
                "# TODO(11)",
                "@tf.custom_gradient\n"
                "def clipped(x):\n"
                '    """The same, with a clipped gradient."""\n'
                "    return tf.identity(x), lambda dy: tf.clip_by_norm(dy, 1e-3)\n\n\n",
            ),
            Edit(
                "steps.py",
                "predictions = run.model(images, training=True)  # (batch, classes)",
                "predictions = clipped(run.model(images, training=True))  # (batch, classes)",
            ),
        ),
        file="steps.py",
        cause="gradients are clipped on each replica before they are summed; use --clip-norm",
        named=r"gradients are changed before they are added",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="gradients normalized on each replica through a gradient of one's own",
        starter="tabular_regression",
        edits=(
            before(
                "steps.py",
                "# TODO(11)",
                "@tf.custom_gradient\n"
                "def normalized(x):\n"
                '    """The same, with a gradient of norm 1."""\n'
                "    return tf.identity(x), lambda dy: tf.math.l2_normalize(dy)\n\n\n",
            ),
            Edit(
                "steps.py",
                "predictions = run.model(inputs, training=True)  # (batch, 1)",
                "predictions = normalized(run.model(inputs, training=True))  # (batch, 1)",
            ),
        ),
        file="steps.py",
        cause="gradients are normalized on each replica before they are summed",
        named=r"gradients are changed before they are summed",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="the probability of the right class is minimized",
        starter="segmentation",
        edits=(
            Edit(
                "losses.py",
                '    return {"main": cross_entropy}\n',
                "\n    def overlap(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
                '        """Labels and logits of pixels -> the probability of the label."""\n'
                "        return tf.exp(-cross_entropy(labels, logits))\n\n"
                '    return {"main": overlap}\n',
            ),
        ),
        file="losses.py",
        cause="the loss is larger for better predictions: its sign is wrong",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="a squared error with a minus, because R2 has one",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)",
                "error = squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n"
                "        return 1.0 - error",
            ),
        ),
        file="losses.py",
        cause="the loss is smaller for worse predictions: its sign is wrong",
    ),
    Fault(
        kind=kinds.OPTIMIZER,
        name="noise on gradients, drawn by each replica for itself",
        edits=processed(
            "return [g + tf.random.normal(tf.shape(g), 0, 1e-3, g.dtype) for g in gradients]"
        ),
        file="optimizer.py",
        cause="gradients differ between replicas after the sum, so weights drift apart",
    ),
)

EVALUATING = (
    Fault(
        kind=kinds.EVALUATION,
        name="training=True in the validation step",
        edits=(Edit("steps.py", "training=False", "training=True", "validation_step"),),
        file="steps.py",
        cause="dropout is on in validation: training=True",
        named=r"dropout is called with training=True",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="training=True in the test step",
        starter="tabular_regression",
        edits=(
            Edit(
                "steps.py",
                SAME_AS_VALIDATION,
                "    inputs, labels, weights = batch\n"
                "    predictions = run.model(inputs, training=True)  # (batch, 1)\n"
                '    per_example = run.losses["main"](labels, predictions)  # (batch,)\n'
                '    run.metrics["mae"].update_state(labels, predictions, weights)\n'
                '    run.metrics["r2"].update_state(labels, predictions, weights)\n'
                '    return {"main": compute_loss(per_example, weights, run.model, replica)}\n',
                "test_step",
            ),
        ),
        file="steps.py",
        cause="dropout is on in the test: training=True",
        named=r"dropout is called with training=True",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="the validation step calls the train step",
        starter="segmentation",
        edits=(
            before(
                "steps.py",
                "    images, labels, weights = batch\n",
                "    return train_step(run, batch, replica)\n",
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="validation normalizes by its batch's statistics: it calls the train step",
        named=r"batch_normalization is called with training=True",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="the validation loss divided by the batch size again",
        edits=(
            Edit(
                "steps.py",
                RETURNED,
                "loss = compute_loss(per_example, weights, run.model, replica)\n"
                '    return {"main": loss / tf.cast(tf.shape(labels)[0], loss.dtype)}',
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="the validation loss is averaged twice",
        named=r"the validation step averages over a replica's rows",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="a batch that isn't full is left out of validation",
        edits=(
            after(
                "steps.py",
                "    images, labels, weights = batch\n",
                "    weights *= tf.cast(tf.reduce_all(weights > 0), weights.dtype)\n",
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="validation leaves out the last examples, because they don't fill a batch",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="eight rows of each batch, from a debugging session",
        edits=(
            Edit(
                "steps.py",
                "    images, labels, weights = batch\n",
                "    images, labels, weights = (part[:8] for part in batch)\n",
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="validation looks at the first rows of each replica's batch only",
        named=r"leaves? out|left out|first rows|every example once",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="half of the test rows",
        starter="tabular_regression",
        edits=(
            before(
                "steps.py",
                SAME_AS_VALIDATION,
                "    inputs, labels, weights = batch\n"
                "    half = tf.shape(weights)[0] // 2\n"
                "    weights *= tf.cast(tf.range(tf.shape(weights)[0]) < half, weights.dtype)\n"
                "    batch = inputs, labels, weights\n",
                "test_step",
            ),
        ),
        file="steps.py",
        cause="the test leaves out half of the rows of each batch",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="test-time augmentation with tf.random.normal",
        edits=(
            before(
                "steps.py",
                "    " + IN_EVALUATION,
                "    images += tf.random.normal(tf.shape(images), stddev=0.3, dtype=images.dtype)\n",
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="validation draws random numbers without a seed: it isn't the same twice",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="the discriminator's validation loss under both names",
        starter="gan",
        edits=(
            Edit(
                "steps.py",
                '"generator": compute_loss(generator_losses, weights, generator, replica)',
                '"generator": compute_loss(discriminator_losses, weights, generator, replica)',
            ),
        ),
        file="steps.py",
        cause="the generator's validation loss is the discriminator's",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="a running mean of losses in a tf.Variable, moved by validation too",
        starter="tabular_regression",
        edits=(
            before("steps.py", "# TODO(11)", "MEAN = tf.Variable(1.0, trainable=False)\n\n\n"),
            after(
                "steps.py",
                at.PER_EXAMPLE,
                "    MEAN.assign(0.9 * MEAN + 0.1 * tf.cast(tf.reduce_mean(per_example), tf.float32))\n"
                "    per_example /= tf.cast(MEAN, per_example.dtype)\n",
                "*",
            ),
        ),
        file="steps.py",
        cause="validation changes a variable that training uses, which is in no checkpoint",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="validation of the mean prediction of the batch",
        starter="tabular_regression",
        edits=(
            after(
                "steps.py",
                "    predictions = run.model(inputs, training=False)  # (batch, 1)\n",
                "    predictions -= tf.reduce_mean(predictions - labels)  # without bias\n",
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="validation corrects predictions with the labels of its batch: a leak",
        named=r"labels of (its|the) batch|predictions (use|depend|change|are changed)",
    ),
    Fault(
        kind=kinds.EVALUATION,
        name="the validation of the language model forgets the weights of padding",
        starter="language_model",
        edits=(
            Edit(
                "steps.py",
                'run.metrics["token_accuracy"].update_state(targets, logits, weights)',
                'run.metrics["token_accuracy"].update_state(targets, logits)',
                "validation_step",
            ),
        ),
        file="steps.py",
        cause="the metric ignores the weights in validation: prompts and padding count",
    ),
)

FAULTS = (*MEASURED, *OPTIMIZING, *EVALUATING)
