"""Faults in labels, inputs, splits, augmentation and streams."""

from __future__ import annotations

from . import kinds
from . import places as at
from .edits import Edit, Fault, after, before, with_arrays

# Of the image classification: where arrays become splits.
ARRAYS = """\
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
"""
PARTS = '(file[f"{split}_images"] / 16, file[f"{split}_labels"])'
LOADED = '            for split in ("train", "validation", "test")\n'


def labels_of_images(other: str) -> Edit:
    """Other labels in every split."""
    return Edit("data.py", 'labels.astype("int64")', other)


LABELING = (
    Fault(
        kind=kinds.LABELS,
        name="labels are shuffled alone",
        edits=(labels_of_images('np.random.default_rng(0).permutation(labels).astype("int64")'),),
        file="data.py",
        cause="labels don't belong to their inputs",
    ),
    Fault(
        kind=kinds.LABELS,
        name="labels of the next image, in training",
        edits=(labels_of_images('np.roll(labels, -(split == "train")).astype("int64")'),),
        file="data.py",
        cause="labels of the training data are shifted by one row",
    ),
    Fault(
        kind=kinds.LABELS,
        name="classes 1 to 10, one-hot with ten columns",
        edits=(
            labels_of_images('(labels + 1).astype("int64")'),
            Edit(
                "losses.py",
                at.CROSS_ENTROPY,
                "    loss = keras.losses.CategoricalCrossentropy(from_logits=True, "
                'reduction="none")\n'
                '    return {"main": lambda y, p: loss(tf.one_hot(y, 10, dtype=p.dtype), p)}\n',
            ),
        ),
        file="data.py",
        cause="labels are 1 to 10 and the model has classes 0 to 9: one class has no column",
    ),
    Fault(
        kind=kinds.LABELS,
        name="validation labels numbered in another order of the classes",
        edits=(
            labels_of_images('(9 - labels if split == "validation" else labels).astype("int64")'),
        ),
        file="data.py",
        cause="validation labels use another encoding than training labels",
        named=r"labels or inputs of validation data are encoded differently",
    ),
    Fault(
        kind=kinds.LABELS,
        name="test labels counted from one",
        edits=(labels_of_images('(labels + (split == "test")).clip(0, 9).astype("int64")'),),
        file="data.py",
        cause="test labels are off by one",
        named=r"labels or inputs of test data are encoded differently",
    ),
    Fault(
        kind=kinds.LABELS,
        name="labels divided like the images",
        edits=(
            Edit("data.py", PARTS, '(file[f"{split}_images"] / 16, file[f"{split}_labels"] / 16)'),
        ),
        file="data.py",
        cause="labels are all 0: they were divided before they became integers",
    ),
    Fault(
        kind=kinds.LABELS,
        name="validation labels in another unit",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                '"validation": examples(rest[is_validation]),',
                '"validation": (lambda x, y: (x, y / 100))(*examples(rest[is_validation])),',
            ),
        ),
        file="data.py",
        cause="validation labels are on another scale than training labels",
        named=r"labels of validation data reach .* one split is scaled",
    ),
    Fault(
        kind=kinds.LABELS,
        name="training labels in logarithms, the others not",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                '"train": (inputs, labels, _balance',
                '"train": (inputs, np.log1p(labels), _balance',
            ),
        ),
        file="data.py",
        cause="training labels are on another scale than validation and test labels",
    ),
    Fault(
        kind=kinds.LABELS,
        name="squared error of (batch, 1) and (batch,)",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                "return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)",
                "error = (labels - predictions[:, 0]) / LABEL_DEVIATION\n"
                "        return tf.reduce_mean(tf.square(error), axis=-1)",
            ),
            Edit("losses.py", at.SQUARED_ERROR, ""),
        ),
        file="losses.py",
        cause="labels (batch, 1) and predictions (batch,) broadcast: each label meets every row",
        named=r"sub makes 96 x 96 numbers .* broadcast by accident",
    ),
    Fault(
        kind=kinds.LABELS,
        name="masks with x and y exchanged",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "return images[..., np.newaxis], labels",
                "return images[..., np.newaxis], labels.swapaxes(1, 2)",
            ),
        ),
        file="data.py",
        cause="the masks are transposed: labels don't belong to their pixels",
    ),
    Fault(
        kind=kinds.LABELS,
        name="images as they lie in the folder, labels sorted",
        edits=(labels_of_images('np.sort(labels).astype("int64")'),),
        file="data.py",
        cause="labels are in another order than their inputs",
        named=r"labels don't seem to belong to their inputs: one was shuffled",
    ),
    Fault(
        kind=kinds.LABELS,
        name="split after sorting by class, without a shuffle",
        edits=(
            Edit(
                "data.py",
                "    with np.load(DIGITS) as file:\n        return {",
                "    with np.load(DIGITS) as file:\n"
                '        images, labels = file["train_images"] / 16, file["train_labels"]\n'
                "        order = np.argsort(labels, kind='stable')\n"
                "        images, labels = images[order], labels[order]\n"
                "        return {\n"
                '            "train": (images[:900], labels[:900]),\n'
                '            "validation": (images[900:], labels[900:]),\n'
                '            "test": (file["test_images"] / 16, file["test_labels"]),\n'
                "        }\n"
                "        return {",
            ),
        ),
        file="data.py",
        cause="classes of the validation data are not in the training data",
    ),
    Fault(
        kind=kinds.LABELS,
        name="masks of the digits of the next canvas",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "return images[..., np.newaxis], labels",
                "return images[..., np.newaxis], np.roll(labels, 1, axis=0)",
            ),
        ),
        file="data.py",
        cause="labels are shifted by one row",
        named=r"labels don't seem to belong to their inputs: one was shuffled",
    ),
)

FEEDING = (
    Fault(
        kind=kinds.INPUTS,
        name="validation and test images from 0 to 16, training from 0 to 1",
        edits=(
            Edit(
                "data.py",
                'file[f"{split}_images"] / 16,',
                'file[f"{split}_images"] / (16 if split == "train" else 1),',
            ),
        ),
        file="data.py",
        cause="validation and test inputs are on another scale than training inputs",
        named=r"inputs of validation data reach 16.* one split is scaled",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="test images divided by 255 by habit",
        edits=(
            Edit(
                "data.py",
                'file[f"{split}_images"] / 16,',
                'file[f"{split}_images"] / (255 if split == "test" else 16),',
            ),
        ),
        file="data.py",
        cause="test inputs are on another scale than training inputs",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="validation canvases with black and white exchanged",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "return images[..., np.newaxis], labels",
                "images = 1 - images if canvases < 200 else images\n"
                "    return images[..., np.newaxis], labels",
            ),
        ),
        file="data.py",
        cause="validation inputs have another distribution: inverted",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="test columns in another order",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                '"test": examples(test),',
                '"test": (lambda x, y: (x | {"numeric": x["numeric"][:, ::-1]}, y))(\n'
                "            *examples(test)\n"
                "        ),",
            ),
        ),
        file="data.py",
        cause="the columns of the test inputs are in another order than those of training",
        named=r"in test data than in training data: .*columns are in a different order",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="blood pressure in kPa in the validation data",
        starter="tabular_regression",
        edits=(
            Edit(
                "data.py",
                '"validation": examples(rest[is_validation]),',
                '"validation": (lambda x, y: (x | {"numeric": x["numeric"] * units}, y))(\n'
                "            *examples(rest[is_validation])\n"
                "        ),",
            ),
            after(
                "data.py",
                at.PATIENTS_OF_TRAINING,
                '    units = np.where([c == "bp" for c in columns if c != CATEGORY], 0.133, 1)\n'
                '    units = units.astype("float32")\n',
            ),
        ),
        file="data.py",
        cause="a column of the validation inputs is on another scale than in training",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="one training image that couldn't be decoded is NaN",
        edits=(before("data.py", at.ARRAYS, '    splits["train"][0][7] = np.nan\n'),),
        file="data.py",
        cause="an input is NaN: the step that gets it is skipped in every epoch",
        named=r"NaN or infinity in inputs of 1 train examples",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="missing labels are NaN, and their weight is zero",
        starter="tabular_regression",
        edits=(
            after(
                "data.py",
                at.PATIENTS_OF_TRAINING,
                '    weights = _balance(inputs["sex"])\n'
                "    labels[5], weights[5] = np.nan, 0  # the patient was lost\n",
            ),
            Edit("data.py", '_balance(inputs["sex"])),', "weights),"),
            Edit("model.py", "labels.mean(axis=0)", "np.nanmean(labels, axis=0)"),
            Edit("model.py", "labels.var(axis=0)", "np.nanvar(labels, axis=0)"),
        ),
        file="data.py",
        cause="a label is NaN at weight zero, and 0 x NaN is NaN: its step is skipped",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="uint8 images times 16: the darkest ink becomes 0",
        edits=(
            Edit(
                "data.py",
                'file[f"{split}_images"] / 16,',
                'file[f"{split}_images"] * np.uint8(16) / 255,',
            ),
        ),
        file="data.py",
        cause="integers overflow: the largest values become 0",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="an integer division by 255: every image is black",
        edits=(
            Edit("data.py", 'file[f"{split}_images"] / 16,', 'file[f"{split}_images"] // 255,'),
        ),
        file="data.py",
        cause="the inputs are constant",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="numbers of tokens differ by one in validation and test",
        starter="language_model",
        edits=(
            before(
                "data.py",
                "    arrays = (tokens, targets, weights)\n",
                "    tokens = tokens.copy()\n"
                "    tokens[:held_out] += 1  # another vocabulary file\n",
            ),
        ),
        file="data.py",
        cause="validation and test tokens are numbered otherwise than training tokens",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="real images from -1 to 1, generated ones from 0 to 1",
        starter="gan",
        edits=(
            Edit(
                "data.py", '(images / 16).astype("float32")', '(images / 8 - 1).astype("float32")'
            ),
        ),
        file="model.py",
        cause="generated images have another range than real ones: the discriminator can't lose",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="statistics of columns that hold NaN",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                "np.nanmean(numeric, axis=0)",
                "np.mean(numeric, axis=0)",
            ),
        ),
        file="model.py",
        cause="the statistics of columns with missing values are NaN: these inputs are lost",
    ),
    Fault(
        kind=kinds.INPUTS,
        name="validation images lie on their side",
        edits=(
            Edit(
                "data.py",
                ARRAYS,
                "        split: (\n"
                '            np.rot90(images, int(split != "train"), (1, 2))'
                '.astype("float32")[..., np.newaxis],\n'
                '            labels.astype("int64"),\n'
                "        )\n",
            ),
        ),
        file="data.py",
        cause="validation and test images are rotated and training images are not",
        named=r"inputs of validation data are encoded differently|turned|rotated",
    ),
)

LEAKING = (
    Fault(
        kind=kinds.LEAKS,
        name="the final training on train and validation, and nobody took it back",
        edits=(
            Edit(
                "data.py",
                "    with np.load(DIGITS) as file:\n        return {",
                "    with np.load(DIGITS) as file:\n"
                '        both = ("train", "validation")\n'
                '        images = np.concatenate([file[f"{s}_images"] / 16 for s in both])\n'
                '        labels = np.concatenate([file[f"{s}_labels"] for s in both])\n'
                '        return {"train": (images, labels)} | {',
            ),
            Edit("data.py", LOADED, '            for split in ("validation", "test")\n'),
        ),
        file="data.py",
        cause="rows of the validation data are in the training data",
    ),
    Fault(
        kind=kinds.LEAKS,
        name="the validation file is loaded as the test",
        edits=(
            Edit(
                "data.py",
                LOADED + "        }\n",
                LOADED + '        } | {"test": (file["validation_images"] / 16, '
                'file["validation_labels"])}\n',
            ),
        ),
        file="data.py",
        cause="the test data is the validation data",
        named=r"of the test examples are validation examples too",
    ),
    Fault(
        kind=kinds.LEAKS,
        name="validation on the training images",
        edits=(
            Edit(
                "data.py",
                LOADED + "        }\n",
                LOADED + '        } | {"validation": (file["train_images"][:300] / 16, '
                'file["train_labels"][:300])}\n',
            ),
        ),
        file="data.py",
        cause="the validation data is a part of the training data",
    ),
    Fault(
        kind=kinds.LEAKS,
        name="validation rows are held out for validation only by name",
        starter="tabular_regression",
        edits=(Edit("data.py", "examples(rest[~is_validation])", "examples(rest)"),),
        file="data.py",
        cause="rows of the validation data are in the training data",
        named=r"of the validation examples are training examples too",
    ),
    Fault(
        kind=kinds.LEAKS,
        name="a column that was computed from the label",
        starter="tabular_regression",
        edits=(
            after(
                "data.py",
                at.NUMERIC,
                "        numeric[:, 0] = np.round(target[rows] / 4)  # the severity group\n",
            ),
        ),
        file="data.py",
        cause="an input gives the label away",
    ),
    Fault(
        kind=kinds.LEAKS,
        name="the seed that draws held-out dates draws the training dates too",
        starter="language_model",
        edits=(
            Edit(
                "data.py",
                "    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)\n",
                "    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES)\n"
                "    days += random.Random(SEED).sample(range(DAYS), task.dates)\n",
            ),
        ),
        file="data.py",
        cause="dates of validation and test are in the training data",
    ),
    Fault(
        kind=kinds.LEAKS,
        name="every split is composed with the same seed from the same digits",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                'split: _compose(file[f"{split}_images"], file[f"{split}_labels"], canvases, seed)\n'
                "            for seed, (split, canvases) in enumerate(CANVASES.items())",
                'split: _compose(file["train_images"], file["train_labels"], canvases, 0)\n'
                "            for split, canvases in CANVASES.items()",
            ),
        ),
        file="data.py",
        cause="validation and test canvases are training canvases",
    ),
    Fault(
        kind=kinds.LEAKS,
        name="the generator is compared with the images that it was trained on",
        starter="gan",
        edits=(
            Edit(
                "data.py",
                'for s in ("train", "validation", "test"))',
                'for s in ("train", "train", "test"))',
            ),
        ),
        file="data.py",
        cause="the validation data is the training data",
    ),
)

AUGMENTING = (
    Fault(
        kind=kinds.AUGMENTATION,
        name="images are warped and their masks are not",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                "return images, tf.cast(labels[..., 0], tf.int32), weights",
                "return images, batch[1], weights",
            ),
        ),
        file="data.py",
        cause="the labels don't move with their images in the augmentation",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="a fixed seed: the same shifts in every batch",
        edits=(
            Edit(
                "data.py",
                "stateless_uniform((images.shape[0], 2), seed,",
                "stateless_uniform((images.shape[0], 2), (1, 2),",
            ),
        ),
        file="data.py",
        cause="the augmentation draws the same random numbers in every batch",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="tf.random.uniform draws the shifts",
        edits=(
            Edit(
                "data.py",
                "tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)",
                "tf.random.uniform((images.shape[0], 2), -task.shift, task.shift)",
            ),
        ),
        file="data.py",
        cause="the augmentation is random without the seed: a batch can't be made again",
        named=r"draws random numbers that don't depend on the given seed",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="numpy draws the shifts, once for all batches",
        edits=(
            Edit(
                "data.py",
                "tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)",
                "tf.constant(\n"
                "            np.random.uniform(-task.shift, task.shift, (images.shape[0], 2)), "
                "tf.float32\n"
                "        )",
            ),
        ),
        file="data.py",
        cause="numpy's numbers become constants of the graph: every batch gets the same",
        named=r"gives the same result in every step",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="a shuffle inside the batch that leaves the masks where they were",
        starter="segmentation",
        edits=(
            after(
                "data.py",
                "        images = keras.ops.image.affine_transform(images, transforms)\n",
                "        order = tf.random.experimental.stateless_shuffle(tf.range(rows), seed)\n"
                "        images = tf.gather(images, order)\n",
            ),
        ),
        file="data.py",
        cause="inputs are shuffled in the augmentation without their labels",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="masks are interpolated like images",
        starter="segmentation",
        edits=(
            Edit(
                "data.py",
                'labels = keras.ops.image.affine_transform(labels, transforms, "nearest")',
                "labels = keras.ops.image.affine_transform(labels, transforms)",
            ),
            Edit(
                "data.py",
                "tf.cast(labels[..., 0], tf.int32), weights",
                "tf.minimum(tf.cast(labels[..., 0], tf.int32), CLASSES - 1), weights",
            ),
        ),
        file="data.py",
        cause="labels are averages of classes after the augmentation; use nearest",
        named=r"interpolat|between classes|nearest|average",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="a shift in fractions of the image, used in pixels times its size",
        edits=(
            Edit(
                "data.py",
                "seed, -task.shift, task.shift)",
                "seed, -1, 1)\n        shifts *= task.shift * images.shape[1] * 4",
            ),
        ),
        file="data.py",
        cause="the augmentation moves images out of sight: training inputs differ from validation",
        named=r"out of sight|too (strong|far|large)|inputs (differ from|are unlike)",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="tokens of one form and targets of another",
        starter="language_model",
        edits=(
            Edit(
                "data.py",
                "        form = tf.random.stateless_uniform((rows,), seed, 0, forms, tf.int32)\n"
                "        return tuple(tf.gather(part, form, axis=1, batch_dims=1) for part in batch)"
                "  # (batch, T)\n",
                "        parts = []\n"
                "        for i, part in enumerate(batch):\n"
                "            form = tf.random.stateless_uniform("
                "(rows,), seed + i, 0, forms, tf.int32)\n"
                "            parts.append(tf.gather(part, form, axis=1, batch_dims=1))\n"
                "        return tuple(parts)\n",
            ),
        ),
        file="data.py",
        cause="inputs and labels are drawn with different random numbers: they don't fit",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="latents from tf.random.normal",
        starter="gan",
        edits=(
            Edit(
                "data.py",
                "tf.random.stateless_normal(shape, seed, dtype=keras.config.floatx())",
                "tf.random.normal(shape, dtype=keras.config.floatx())",
            ),
        ),
        file="data.py",
        cause="latents are random without the seed: a batch can't be made again",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="the same latents in every step",
        starter="gan",
        edits=(
            before(
                "data.py",
                "    def augment(batch",
                "    latents = np.random.default_rng(0).standard_normal((96, task.latent), "
                '"float32")\n\n',
            ),
            Edit(
                "data.py",
                "        shape = (images.shape[0], task.latent)\n"
                "        return images, tf.random.stateless_normal("
                "shape, seed, dtype=keras.config.floatx()), weights\n",
                "        return images, tf.constant(latents), weights\n",
            ),
        ),
        file="data.py",
        cause="the latents are the same in every batch",
        named=r"gives the same result in every step",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="noise of 50 on columns that vary by 10",
        starter="tabular_regression",
        edits=(
            after("data.py", "import numpy as np\n", "import tensorflow as tf\n"),
            Edit(
                "data.py",
                "    return None\n",
                "    def augment(batch, seed):\n"
                "        inputs, labels, weights = batch\n"
                '        numeric = inputs["numeric"]\n'
                "        noise = tf.random.stateless_normal(numeric.shape, seed, stddev=50.0)\n"
                "        noise = tf.cast(noise, numeric.dtype)\n"
                '        return inputs | {"numeric": numeric + noise}, labels, weights\n\n'
                "    return augment\n",
            ),
        ),
        file="data.py",
        cause="the augmentation drowns the inputs: training inputs differ from validation",
    ),
    Fault(
        kind=kinds.AUGMENTATION,
        name="mixup of images, the labels stay those of the first",
        edits=(
            after(
                "data.py",
                "        images, labels, weights = batch\n",
                "        images = 0.3 * images + 0.7 * tf.reverse(images, axis=[0])\n",
            ),
        ),
        file="data.py",
        cause="labels don't belong to the mixed images: most of an image is another's",
    ),
)


def stream(lines: str) -> tuple[Edit, ...]:
    """A stream as the training data; `lines` make it, from images and labels."""
    return with_arrays(
        '    images, labels = arrays["train"]\n' + lines + '    return arrays | {"train": stream}\n'
    )


STREAMING = (
    Fault(
        kind=kinds.STREAMS,
        name="a stream that shuffles itself anew whenever it is read",
        edits=stream(
            "    stream = tf.data.Dataset.from_tensor_slices((images, labels))\n"
            "    stream = stream.shuffle(1200)\n"
        ),
        file="data.py",
        cause="the stream is in another order each time it is read: a run can't be resumed exactly",
        named=r"or the stream, draws random numbers that don't depend on the given seed",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="the stream repeats for all epochs",
        edits=stream(
            "    stream = tf.data.Dataset.from_tensor_slices((images, labels)).repeat(40)\n"
        ),
        file="data.py",
        cause="the stream repeats the data: an epoch is forty passes",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="cache after the random flips",
        edits=stream(
            "    stream = tf.data.Dataset.from_tensor_slices((images, labels))\n"
            "    stream = stream.map(lambda x, y: (x + tf.random.normal(x.shape, 0, 0.1), y))\n"
            "    stream = stream.cache()\n"
        ),
        file="data.py",
        cause="random numbers are drawn before cache: each epoch gets the same ones, a resume others",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="noise from tf.random in the stream",
        edits=stream(
            "    stream = tf.data.Dataset.from_tensor_slices((images, labels))\n"
            "    stream = stream.map(lambda x, y: (x + tf.random.normal(x.shape, 0, 0.3), y))\n"
        ),
        file="data.py",
        cause="the stream draws random numbers without a seed: a batch can't be made again",
        named=r"or the stream, draws random numbers that don't depend on the given seed",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="images and labels are shuffled, each by itself, then zipped",
        edits=stream(
            "    parts = [tf.data.Dataset.from_tensor_slices(a) for a in (images, labels)]\n"
            "    parts = [\n"
            "        part.shuffle(1200, seed=i, reshuffle_each_iteration=False)\n"
            "        for i, part in enumerate(parts)\n"
            "    ]\n"
            "    stream = tf.data.Dataset.zip(*parts)\n"
        ),
        file="data.py",
        cause="labels are shuffled apart from their inputs",
        named=r"in train data, labels don't belong to their inputs: one was shuffled",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="a cardinality of 320 for a validation stream of 297",
        edits=with_arrays(
            '    validation = tf.data.Dataset.from_tensor_slices(arrays["validation"])\n'
            "    validation = validation.filter(lambda x, y: tf.reduce_max(x) > 0)\n"
            "    size = tf.data.experimental.assert_cardinality(320)\n"
            '    return arrays | {"validation": validation.apply(size)}\n'
        ),
        file="data.py",
        cause="the stream has fewer examples than its cardinality says: the first validation fails",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="a generator that can be read once",
        edits=stream(
            "    rows = iter(zip(images, labels))\n"
            "    spec = (tf.TensorSpec((8, 8, 1)), tf.TensorSpec((), tf.int64))\n"
            "    stream = tf.data.Dataset.from_generator(lambda: rows, output_signature=spec)\n"
            "    stream = stream.apply(tf.data.experimental.assert_cardinality(1200))\n"
        ),
        file="data.py",
        cause="the stream is empty when it is read a second time",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="validation images twice, from repeat",
        edits=with_arrays(
            '    validation = tf.data.Dataset.from_tensor_slices(arrays["validation"])\n'
            '    return arrays | {"validation": validation.shuffle(300).repeat(2).take(400)}\n'
        ),
        file="data.py",
        cause="validation examples count twice, others once, in another order each time",
        named=r"\bstream|another order|counts? twice|other examples each",
    ),
    Fault(
        kind=kinds.STREAMS,
        name="classes one after the other, more than the shuffle buffer's reach",
        edits=stream(
            "    order = np.argsort(labels, kind='stable')\n"
            "    images, labels = np.repeat(images[order], 20, 0), np.repeat(labels[order], 20)\n"
            "    stream = tf.data.Dataset.from_tensor_slices((images, labels))\n"
        ),
        file="data.py",
        cause="the stream is sorted by class, and the shuffle buffer holds only a part of it",
    ),
)

FAULTS = (*LABELING, *FEEDING, *LEAKING, *AUGMENTING, *STREAMING)
