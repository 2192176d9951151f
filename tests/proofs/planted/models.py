"""Faults in models: a classifier's, a table's, a U-Net's, a language model's, a GAN's."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Edit, Fault, after, before

FLATTEN = "    x = layers.Flatten()(x)\n"
IN_TRAINING = "    predictions = run.model(images, training=True)  # (batch, classes)\n"


def model(text: str, other: str) -> tuple[Edit, ...]:
    """One change of model.py."""
    return (Edit("model.py", text, other),)


MODELS = (
    Fault(
        kind=kinds.MODEL,
        name="softmax in the last layer, and a loss that wants logits",
        edits=model(
            at.CLASS_LOGITS,
            'logits = layers.Dense(CLASSES, "softmax", dtype=keras.config.floatx())(x)',
        ),
        file="model.py",
        cause="predictions are probabilities, and from_logits=True takes the softmax again",
    ),
    Fault(
        kind=kinds.MODEL,
        name="a sigmoid at the end of the discriminator, under from_logits",
        starter="gan",
        edits=model(
            'layers.Dense(1, dtype=keras.config.floatx(), name="logits")',
            'layers.Dense(1, "sigmoid", dtype=keras.config.floatx(), name="logits")',
        ),
        file="model.py",
        cause="the discriminator gives probabilities where the loss expects logits",
    ),
    Fault(
        kind=kinds.MODEL,
        name="a softmax layer behind the logits of each pixel",
        starter="segmentation",
        edits=model(
            "    return keras.Model(images, logits)\n",
            "    return keras.Model(images, layers.Softmax(name='probabilities')(logits))\n",
        ),
        file="model.py",
        cause="predictions are probabilities, and from_logits=True takes the softmax again",
    ),
    Fault(
        kind=kinds.MODEL,
        name="logits, and a loss without from_logits",
        edits=(
            Edit(
                "losses.py",
                'SparseCategoricalCrossentropy(from_logits=True, reduction="none")',
                'SparseCategoricalCrossentropy(reduction="none")',
            ),
        ),
        file="losses.py",
        cause="the loss takes logits for probabilities: from_logits=True is missing",
        named=r"create it with from_logits=True",
    ),
    Fault(
        kind=kinds.MODEL,
        name="attention over the rows of the batch, by a softmax of axis 0",
        edits=model(
            at.HIDDEN, at.HIDDEN + "    x = x * keras.ops.softmax(layers.Dense(128)(x), axis=0)\n"
        ),
        file="model.py",
        cause="rows of the batch interact: a softmax is taken over the batch axis",
        named=r"computes something over the batch, as by a mean over axis 0",
    ),
    Fault(
        kind=kinds.MODEL,
        name="training=False in the train step",
        edits=(
            Edit(
                "steps.py", "run.model(images, training=True)", "run.model(images, training=False)"
            ),
        ),
        file="steps.py",
        cause="dropout is off in training: the train step calls the model with training=False",
    ),
    Fault(
        kind=kinds.MODEL,
        name="normalization statistics that never move: training=False in the train step",
        starter="segmentation",
        edits=(
            Edit(
                "steps.py", "run.model(images, training=True)", "run.model(images, training=False)"
            ),
        ),
        file="steps.py",
        cause="BatchNormalization never learns its statistics: training=False in the train step",
        named=r"batch_normalization is called with training=False in the train step",
    ),
    Fault(
        kind=kinds.MODEL,
        name="relu on standardized predictions",
        starter="tabular_regression",
        edits=model(
            at.PREDICTION,
            '    x = layers.Dense(1, "relu", dtype=floatx)(layers.Concatenate()([x, hidden]))\n',
        ),
        file="model.py",
        cause="the last layer of a regression has a relu: nothing below the mean can be predicted",
    ),
    Fault(
        kind=kinds.MODEL,
        name="a sigmoid on a regression in units of the data",
        starter="tabular_regression",
        edits=model(
            "    return keras.Model(inputs, unscale(x))\n",
            '    return keras.Model(inputs, layers.Activation("sigmoid")(unscale(x)))\n',
        ),
        file="model.py",
        cause="the last layer's sigmoid keeps predictions in (0, 1), and labels are far above",
        named=r"the last activation can't give such values",
    ),
    Fault(
        kind=kinds.MODEL,
        name="stop_gradient behind the convolutions",
        edits=model(FLATTEN, "    x = layers.Flatten()(keras.ops.stop_gradient(x))\n"),
        file="model.py",
        cause="the convolutions get no gradient from the data's loss, only from L2",
        named=r"none for .*tf\.stop_gradient",
    ),
    Fault(
        kind=kinds.MODEL,
        name="hidden units are rounded",
        starter="tabular_regression",
        edits=model(
            "    hidden = layers.Dropout(task.dropout)(hidden)\n",
            "    hidden = layers.Dropout(task.dropout)(ops.round(hidden))\n",
        ),
        file="model.py",
        cause="rounding has no gradient, so the hidden layer doesn't learn",
    ),
    Fault(
        kind=kinds.MODEL,
        name="BatchNormalization with training=True written into the model",
        edits=model(
            "x = layers.LayerNormalization()(x)  # per example, so replicas needn't exchange "
            "statistics",
            "x = layers.BatchNormalization()(x, training=True)",
        ),
        file="model.py",
        cause="evaluation normalizes by the statistics of its batch: training=True in the model",
    ),
    Fault(
        kind=kinds.MODEL,
        name="normalization statistics that need ten thousand steps",
        starter="segmentation",
        edits=model("momentum=0.9, epsilon=0.1", "momentum=0.9999, epsilon=0.1"),
        file="model.py",
        cause="momentum of BatchNormalization is so high that evaluation uses its initial values",
    ),
    Fault(
        kind=kinds.MODEL,
        name="a bias of -10 before a relu",
        edits=model(
            at.HIDDEN,
            "    x = layers.Dense(\n"
            '        128, activation="relu", bias_initializer=keras.initializers.Constant(-10)\n'
            "    )(x)\n",
        ),
        file="model.py",
        cause="all units of the hidden layer are dead: predictions don't depend on inputs",
        named=r"units that are all dead|dead units",
    ),
    Fault(
        kind=kinds.MODEL,
        name="weights that start at zero behind a relu",
        starter="tabular_regression",
        edits=model(
            'layers.Dense(task.width, activation="relu")(x)',
            'layers.Dense(task.width, activation="relu", kernel_initializer="zeros")(x)',
        ),
        file="model.py",
        cause="the hidden layer starts at zero, where relu has no gradient: it never learns",
    ),
    Fault(
        kind=kinds.MODEL,
        name="each block takes the images again",
        edits=model(
            'x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)',
            'x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(images)',
        ),
        file="model.py",
        cause="the first block isn't part of the model",
    ),
    Fault(
        kind=kinds.MODEL,
        name="the batch is standardized by hand",
        edits=model(
            at.HIDDEN,
            at.HIDDEN + "    x = x - keras.ops.mean(x, axis=0)\n"
            "    x = x / (keras.ops.std(x, axis=0) + 1e-3)\n",
        ),
        file="model.py",
        cause="predictions depend on the other rows of the batch, in evaluation too",
    ),
    Fault(
        kind=kinds.MODEL,
        name="a tf.Variable counts steps for a warm-up of the loss",
        edits=(
            before("steps.py", "# TODO(11)", "SEEN = tf.Variable(0.0, trainable=False)\n\n\n"),
            before(
                "steps.py",
                '    return {"main": compute_loss(per_example, weights, run.model, replica)}',
                "    per_example *= tf.minimum(SEEN.assign_add(1.0) / 100.0, 1.0)\n",
                "train_step",
            ),
        ),
        file="steps.py",
        cause="a tf.Variable counts once per replica and is in no checkpoint: use replica.step",
    ),
    Fault(
        kind=kinds.MODEL,
        name="noise from tf.random.normal in the train step",
        edits=(
            before(
                "steps.py",
                IN_TRAINING,
                "    images += tf.random.normal(tf.shape(images), stddev=0.1, dtype=images.dtype)\n",
            ),
        ),
        file="steps.py",
        cause="tf.random in a step isn't derived from the seed and the step: use replica.seed",
    ),
    Fault(
        kind=kinds.MODEL,
        name="noise from numpy, drawn when the step is traced",
        edits=(
            before("steps.py", "import tensorflow as tf\n", "import numpy as np\n"),
            before(
                "steps.py",
                IN_TRAINING,
                "    images += np.random.normal(0, 0.3, images.shape).astype(images.dtype.name)\n",
            ),
        ),
        file="steps.py",
        cause="numpy draws while the step is traced: the noise is the same in every step",
    ),
    Fault(
        kind=kinds.MODEL,
        name="word dropout with the seed (0, 1) in every step",
        starter="language_model",
        edits=(
            Edit(
                "steps.py",
                "    logits = run.model(tokens, training=True)  # (batch, T, TOKENS)\n",
                "    keep = tf.random.stateless_uniform(tokens.shape, (0, 1)) > 0.1\n"
                "    logits = run.model(tf.where(keep, tokens, 0), training=True)\n",
            ),
        ),
        file="steps.py",
        cause="a constant seed: each step and replica draws the same random numbers",
        named=r"its seed is a constant; use replica\.seed",
    ),
    Fault(
        kind=kinds.MODEL,
        name="the fraction to keep, given as the fraction to drop",
        edits=(Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.97"),),
        file="config.py",
        cause="dropout drops nearly everything: the rate is the fraction to drop",
        named=r"dropout|\brate\b",
    ),
    Fault(
        kind=kinds.MODEL,
        name="predictions are standardized instead of brought back to units",
        starter="tabular_regression",
        edits=model(
            'variance=variance, invert=True, dtype=floatx, name="prediction"',
            'variance=variance, dtype=floatx, name="prediction"',
        ),
        file="model.py",
        cause="predictions are on another scale than labels: invert=True is missing",
    ),
    Fault(
        kind=kinds.MODEL,
        name="the table's prediction uses the hidden layer's bias only",
        starter="tabular_regression",
        edits=model(
            at.PREDICTION,
            "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]) * 0.0)\n",
        ),
        file="model.py",
        cause="predictions don't depend on inputs: they are multiplied by zero",
        named=r"outputs don't depend on the inputs",
    ),
    Fault(
        kind=kinds.MODEL,
        name="sampled units from tf.random.uniform inside a layer",
        edits=(
            after("model.py", "import keras\n", "import tensorflow as tf\n"),
            before(
                "model.py",
                "# TODO(4)",
                "class DropRows(keras.layers.Layer):\n"
                '    """Drops whole features at random."""\n\n'
                "    def call(self, x, training=False):\n"
                "        if not training:\n"
                "            return x\n"
                "        keep = tf.random.uniform(tf.shape(x), dtype=x.dtype) > 0.2\n"
                "        return tf.where(keep, x, tf.zeros_like(x))\n\n\n",
            ),
            before("model.py", at.HIDDEN, "    x = DropRows()(x)\n"),
        ),
        file="model.py",
        cause="a layer draws with tf.random instead of a SeedGenerator: runs can't be repeated",
        named=r"drop_rows.*tf\.random\.normal and similar functions",
    ),
    Fault(
        kind=kinds.MODEL,
        name="dropout written by hand that is always on",
        starter="tabular_regression",
        edits=model(
            "    hidden = layers.Dropout(task.dropout)(hidden)\n",
            "    hidden = layers.Dropout(task.dropout)(hidden, training=True)\n",
        ),
        file="model.py",
        cause="dropout is on in evaluation too: training=True in the model",
    ),
)

ATTENTION = "attention(y, y, use_causal_mask=True)"
SHIFT = "    tokens, targets = lines[:, :-1], lines[:, 1:]\n"

LANGUAGE_MODELS = (
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        starter="language_model",
        name="attention without a causal mask",
        edits=model(ATTENTION, "attention(y, y)"),
        file="model.py",
        cause="a token's prediction depends on later tokens, the answer: no causal mask",
        named=r"attention without a causal mask",
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        starter="language_model",
        name="targets that aren't shifted",
        edits=(Edit("data.py", SHIFT, "    tokens, targets = lines[:, :-1], lines[:, :-1]\n"),),
        file="data.py",
        cause="targets are the inputs themselves: the model learns to copy",
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        starter="language_model",
        name="targets shifted the wrong way",
        edits=(Edit("data.py", SHIFT, "    tokens, targets = lines[:, 1:], lines[:, :-1]\n"),),
        file="data.py",
        cause="targets are the tokens before, which the model has seen",
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        starter="language_model",
        name="the loss counts padding",
        edits=(
            Edit(
                "data.py",
                '(is_answer & (targets != 0)).astype("float32")',
                'is_answer.astype("float32")',
            ),
        ),
        file="data.py",
        cause="padding tokens have weight 1: loss and accuracy are mostly about zeros",
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        starter="language_model",
        name="normalization over the positions of a line",
        edits=model(
            "        y = layers.LayerNormalization()(x)\n        attention",
            "        y = layers.LayerNormalization(axis=1)(x)\n        attention",
        ),
        file="model.py",
        cause="normalization over time lets a token see later ones",
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        starter="language_model",
        name="attention among the lines of a batch",
        edits=model(
            ATTENTION,
            "keras.ops.swapaxes(\n"
            "            attention(keras.ops.swapaxes(y, 0, 1), keras.ops.swapaxes(y, 0, 1)), 0, 1\n"
            "        )",
        ),
        file="model.py",
        cause="batch and time axis are exchanged: rows of the batch attend to each other",
    ),
    Fault(
        kind=kinds.LANGUAGE_MODEL,
        starter="language_model",
        name="the mean of all positions is added to each",
        edits=model(
            "    logits = layers.Dense(TOKENS",
            "    x = x + keras.ops.mean(x, axis=1, keepdims=True)  # context\n"
            "    logits = layers.Dense(TOKENS",
        ),
        file="model.py",
        cause="a token's prediction depends on later tokens, through a mean over the line",
    ),
)

GENERATED = "    generated = generator(latents, training=True)  # (batch, h, w, channels)\n"
ON_GENERATED = "    on_generated = discriminator(generated, training=True)  # (batch, 1)\n"

GANS = (
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="labels of real and generated images exchanged in one of two losses",
        edits=(
            Edit(
                "losses.py",
                "cross_entropy(tf.ones_like(on_real), on_real)",
                "cross_entropy(tf.zeros_like(on_real), on_real)",
            ),
            Edit(
                "losses.py",
                "cross_entropy(tf.zeros_like(on_generated), on_generated)",
                "cross_entropy(tf.ones_like(on_generated), on_generated)",
            ),
        ),
        file="losses.py",
        cause="discriminator and generator want the same: labels are exchanged in one loss",
    ),
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="the generator is rewarded when it is found out",
        edits=(
            Edit(
                "losses.py",
                "return cross_entropy(tf.ones_like(on_generated), on_generated)  # (batch,)",
                "return cross_entropy(tf.zeros_like(on_generated), on_generated)  # (batch,)",
            ),
        ),
        file="losses.py",
        cause="the generator's loss falls when the discriminator is right: wrong label",
    ),
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="the generator's loss goes to the discriminator's optimizer",
        edits=(
            Edit(
                "steps.py",
                'return {"generator": compute_loss(per_example, weights, generator, replica)}',
                'return {"discriminator": compute_loss(per_example, weights, generator, replica)}',
                "generator_step",
            ),
        ),
        file="steps.py",
        cause="the generator never learns: its loss trains the discriminator",
        named=r"must return a loss named 'generator'",
    ),
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="one optimizer for both models",
        edits=(
            Edit(
                "optimizer.py",
                '    return {\n        "generator": keras.optimizers.Adam(schedule, beta_1=0.5),\n'
                '        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),\n    }\n',
                "    return keras.optimizers.Adam(schedule, beta_1=0.5)\n",
            ),
            Edit("steps.py", '{"discriminator": compute', '{"main": compute', "discriminator_step"),
            Edit("steps.py", '{"generator": compute', '{"main": compute', "generator_step"),
            Edit(
                "steps.py",
                "    return {\n"
                '        "discriminator": compute_loss('
                "discriminator_losses, weights, discriminator, replica),\n"
                '        "generator": compute_loss('
                "generator_losses, weights, generator, replica),\n    }\n",
                "    losses = discriminator_losses + generator_losses\n"
                '    return {"main": compute_loss(losses, weights, discriminator, replica)}\n',
            ),
        ),
        file="optimizer.py",
        cause="each step trains both models, so each loss undoes the other",
    ),
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="stop_gradient copied into the generator's step",
        edits=(
            Edit(
                "steps.py",
                ON_GENERATED,
                ON_GENERATED.replace("(generated,", "(tf.stop_gradient(generated),"),
                "generator_step",
            ),
        ),
        file="steps.py",
        cause="the generator gets no gradient: stop_gradient",
    ),
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="the generator is judged by real images",
        edits=(
            Edit(
                "steps.py",
                "    _, latents, weights = batch\n",
                "    images, latents, weights = batch\n",
            ),
            Edit(
                "steps.py",
                ON_GENERATED,
                ON_GENERATED.replace("(generated,", "(images,"),
                "generator_step",
            ),
        ),
        file="steps.py",
        cause="the generator's loss doesn't depend on the generator: it gets no gradient",
    ),
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="the discriminator sees generated images twice and no real ones",
        edits=(
            Edit(
                "steps.py",
                "on_real = discriminator(images, training=True)",
                "on_real = discriminator(generated, training=True)",
                "discriminator_step",
            ),
        ),
        file="steps.py",
        cause="the train step doesn't use the real images",
    ),
    Fault(
        kind=kinds.GAN,
        starter="gan",
        name="latents multiplied by the noise level, which is zero",
        edits=(
            Edit("steps.py", GENERATED, GENERATED.replace("(latents,", "(0.0 * latents,"), "*"),
        ),
        file="steps.py",
        cause="generated images don't depend on the latents: they are all the same",
        named=r"latents|generated|generator",
    ),
)

FAULTS = (*MODELS, *LANGUAGE_MODELS, *GANS)
