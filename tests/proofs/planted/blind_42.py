"""Correct tasks of an examiner who had not seen `check`."""

from __future__ import annotations

from .edits import Change, Edit, Fault
from .tasks import PICTURES
from .unusual import change_of

NO_READERS = '''"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

# For each file suffix, a function (file, model) -> model inputs with a row per example.
READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """Columns of the table that `predict` writes: (n,) or (n, k); images go to its page."""
    return {}
'''

STEPS_HEAD = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

'''

# ------------------------------------------------------------------ 1. adversarial training

ADVERSARIAL_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

# Projected gradient descent (Madry et al., 2018) in the ball of EPSILON around an image.
EPSILON, ATTACK_STEPS, STEP_SIZE = 0.08, 3, 0.04
CLEAN = 0.5  # how much of the loss comes from the images as they are

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


def attacked(run: Run, images: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """The images, changed by at most EPSILON so that their loss gets larger; constants."""
    lowest, highest = tf.maximum(images - EPSILON, 0.0), tf.minimum(images + EPSILON, 1.0)
    noise = tf.random.stateless_uniform(images.shape, seed, -EPSILON, EPSILON, images.dtype)
    changed = tf.clip_by_value(images + noise, lowest, highest)
    for _ in range(ATTACK_STEPS):
        with tf.GradientTape() as tape:
            tape.watch(changed)
            # Without dropout: the attacker sees the network that will be used. A sum, since only
            # the sign of each image's own gradient matters.
            logits = run.model(changed, training=False)
            total = tf.reduce_sum(run.losses["main"](labels, logits))
        uphill = tf.sign(tape.gradient(total, changed))
        changed = tf.clip_by_value(changed + STEP_SIZE * uphill, lowest, highest)
    return tf.stop_gradient(changed)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The mean of the loss on images and on attacked ones."""
    images, labels, weights = batch
    harder = attacked(run, images, labels, replica.seed)
    logits = run.model(images, training=True)
    attacked_logits = run.model(harder, training=True)
    clean = run.losses["main"](labels, logits)  # (batch,)
    robust = run.losses["main"](labels, attacked_logits)  # (batch,)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    run.metrics["robust_accuracy"].update_state(labels, attacked_logits, weights)
    per_example = CLEAN * clean + (1 - CLEAN) * robust
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same without dropout; the attack needs gradients with respect to the images here too."""
    images, labels, weights = batch
    harder = attacked(run, images, labels, replica.seed)
    logits = run.model(images, training=False)
    attacked_logits = run.model(harder, training=False)
    clean = run.losses["main"](labels, logits)
    robust = run.losses["main"](labels, attacked_logits)
    run.metrics["accuracy"].update_state(labels, logits, weights)
    run.metrics["robust_accuracy"].update_state(labels, attacked_logits, weights)
    per_example = CLEAN * clean + (1 - CLEAN) * robust
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

adversarial = change_of(
    name="adversarial training with an attack in validation too",
    project="image_classification",
    edits=(
        Edit("steps.py", "", ADVERSARIAL_STEPS),
        Edit(
            "metrics.py",
            'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            'names = ("accuracy", "robust_accuracy")  # on images as they are, and attacked\n'
            "    return {name: keras.metrics.SparseCategoricalAccuracy() for name in names}",
        ),
        Edit("config.py", '"validation_accuracy"', '"validation_robust_accuracy"'),
    ),
)

# ------------------------------------------------------------------ 2. off-policy bandit

BANDIT_DATA = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """What an old policy has logged: images, and of each the action, its propensity and reward.

    The right answer of an image is never shown: a reward of 1 tells that the action was right.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    random = np.random.default_rng(LOG_SEED)
    logged = {}
    for split, (images, labels) in splits.items():
        rows = len(labels)
        # The old policy has a favorite for each image, which is right for half of them, and
        # explores: it takes one of all actions at random in a fraction EXPLORED of the cases.
        guess = random.integers(ACTIONS, size=rows)
        favorite = np.where(random.random(rows) < 0.5, labels, guess)
        explores = random.random(rows) < EXPLORED
        action = np.where(explores, random.integers(ACTIONS, size=rows), favorite)
        propensity = EXPLORED / ACTIONS + (1 - EXPLORED) * (action == favorite)
        outcome = {
            "action": action.astype("int64"),
            "propensity": propensity.astype("float32"),
            "reward": (action == labels).astype("float32"),
        }
        logged[split] = (images.astype("float32")[..., np.newaxis], outcome)
    return logged
'''

BANDIT_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

# Subtracted from each reward, so that what was never tried isn't avoided merely because the
# importance weights don't add up to 1 (BanditNet, Joachims et al., 2018).
TRANSLATION = 0.4
ENTROPY = 0.01  # keeps the policy from being sure too early

Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # images, what was logged, weights


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """Minus the reward that the new policy is estimated to get, from the log of the old one."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same without dropout."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    images, logged, weights = batch
    log_policy = tf.nn.log_softmax(run.model(images, training=training))  # (batch, actions)
    policy = tf.exp(log_policy)
    taken = tf.gather(policy, logged["action"], axis=1, batch_dims=1)  # (batch,)
    importance = taken / logged["propensity"]
    entropy = -tf.reduce_sum(policy * log_policy, axis=1)
    # Below 0 where the policy is better than TRANSLATION.
    per_example = -importance * (logged["reward"] - TRANSLATION) - ENTROPY * entropy
    # A mean with importance weights: the self-normalized estimate of the policy's reward.
    run.metrics["value"].update_state(logged["reward"], weights * importance)
    # 1 on average for every policy if the propensities are right.
    run.metrics["importance"].update_state(importance, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

bandit = change_of(
    name="policy learned off-policy from a logged bandit",
    project="image_classification",
    edits=(
        Edit("data.py", "", BANDIT_DATA, "create_datasets"),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels",
            "ACTIONS, EXPLORED = 10, 0.6\nLOG_SEED = 0  # not --seed: the log is what it is\n\n"
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels",
        ),
        Edit("steps.py", "", BANDIT_STEPS),
        Edit(
            "metrics.py",
            'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            'return {"value": keras.metrics.Mean(), "importance": keras.metrics.Mean()}',
        ),
        Edit(
            "losses.py",
            'return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}',
            "return {}  # the step computes it",
            "create_losses",
        ),
        Edit("config.py", '"validation_accuracy"', '"validation_value"'),
        PICTURES,
    ),
)

# ------------------------------------------------------------------ 3. long tail

LONG_TAIL_DATA = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Images float32 (n, h, w, 1) in [0, 1], labels int64 (n,); of the training a long tail.

    Digit k has RAREST ** (k / 9) times the images of digit 0 in training, while validation and
    test have equally many of each. Rows of rare digits come several times in an epoch, as often as
    the square root of how rare they are (Mahajan et al., 2018).

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    datasets: dict[str, Any] = {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
    labels = datasets["train"][1]
    most = np.bincount(labels)[0]
    rows = []
    for digit in range(10):
        kept = np.flatnonzero(labels == digit)[: round(most * RAREST ** (digit / 9))]
        rows.append(np.repeat(kept, round(np.sqrt(most / len(kept)))))
    datasets["train"] = RandomAccess(datasets["train"]).select(np.concatenate(rows))
    return datasets
'''

LONG_TAIL_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig

CLASSES = 10


class BalancedAccuracy(keras.metrics.Metric):
    """The mean over the classes of the fraction of each that is right; absent ones don't count."""

    def __init__(self) -> None:
        super().__init__(name="balanced_accuracy")
        # Sums that can be added over batches and replicas: of all, and of right examples.
        self._sums = self.add_variable((2, CLASSES), "zeros", name="sums")

    def update_state(
        self, labels: tf.Tensor, logits: tf.Tensor, sample_weight: tf.Tensor
    ) -> None:
        """Add labels int (batch,), logits (batch, classes) with weights (batch,)."""
        weights = tf.cast(sample_weight, self._sums.dtype)
        right = tf.cast(tf.argmax(logits, axis=1, output_type=labels.dtype) == labels, weights.dtype)
        both = tf.stack([weights, weights * right])  # (2, batch)
        self._sums.assign_add(tf.matmul(both, tf.one_hot(labels, CLASSES, dtype=weights.dtype)))

    def result(self) -> tf.Tensor:
        """A scalar; 0 before the first example."""
        all_, right = tf.unstack(tf.convert_to_tensor(self._sums))
        classes = tf.reduce_sum(tf.cast(all_ > 0, all_.dtype))
        return tf.math.divide_no_nan(tf.reduce_sum(tf.math.divide_no_nan(right, all_)), classes)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {
        "accuracy": keras.metrics.SparseCategoricalAccuracy(),
        "balanced_accuracy": BalancedAccuracy(),
    }
'''

long_tail = change_of(
    name="long tail with square-root resampling and logit adjustment",
    project="image_classification",
    edits=(
        Edit("data.py", "", LONG_TAIL_DATA, "create_datasets"),
        Edit(
            "data.py",
            "from ..engine.errors import UsageError\n",
            "from ..engine.errors import UsageError\nfrom ..engine.random_access import RandomAccess\n",
        ),
        Edit(
            "data.py",
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels",
            "RAREST = 0.1  # images of digit 9 in training for one of digit 0\n\n"
            "Arrays = tuple[np.ndarray, np.ndarray]  # images and labels",
        ),
        Edit(
            "model.py",
            '    images, *_ = first_examples(datasets["train"], 1)\n    return {"shape": images.shape[1:]}',
            '    images, *_ = first_examples(datasets["train"], 1)\n'
            '    _, labels = datasets["train"].arrays  # with the rows that come several times\n'
            "    counts = np.bincount(labels, minlength=CLASSES)\n"
            '    return {"shape": images.shape[1:], "log_prior": np.log(counts / counts.sum())}',
        ),
        Edit("metrics.py", "", LONG_TAIL_METRICS),
        Edit(
            "steps.py",
            'per_example = run.losses["main"](labels, predictions)  # (batch,)\n    run.metrics["accuracy"].update_state(labels, predictions, weights)\n',
            "# Training sees how often each class comes, so that the logits themselves needn't (Menon et\n"
            "    # al., 2021): without it they are those of equally frequent classes, as in validation.\n"
            '    log_prior = tf.constant(run.adapted["log_prior"], predictions.dtype)  # (classes,)\n'
            '    per_example = run.losses["main"](labels, predictions + log_prior)  # (batch,)\n'
            '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n'
            '    run.metrics["balanced_accuracy"].update_state(labels, predictions, weights)\n',
            "train_step",
        ),
        *(
            Edit(
                "steps.py",
                '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n',
                '    run.metrics["accuracy"].update_state(labels, predictions, weights)\n'
                '    run.metrics["balanced_accuracy"].update_state(labels, predictions, weights)\n',
                where,
            )
            for where in ("validation_step", "test_step")
        ),
        Edit("config.py", '"validation_accuracy"', '"validation_balanced_accuracy"'),
    ),
)

# ------------------------------------------------------------------ 4. SAM

SAM_TRAIN = '''def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss where it is largest near the weights (SAM, Foret et al., 2021).

    Its gradient there is what updates the weights; regularization stays that of the weights.
    """
    images, labels, weights = batch
    model = run.model
    values = [tf.convert_to_tensor(v) for v in model.trainable_variables]
    # Random states among them, so that both passes drop the same features.
    state = [tf.convert_to_tensor(v) for v in model.non_trainable_variables]

    def predict(values: list[tf.Tensor]) -> tf.Tensor:
        return model.stateless_call(values, state, images, training=True)[0]  # (batch, classes)

    with tf.GradientTape() as tape:
        tape.watch(values)
        predictions = predict(values)
        here = tf.nn.compute_average_loss(
            run.losses["main"](labels, predictions),
            sample_weight=weights,
            global_batch_size=replica.global_count,
        )
    uphill = tape.gradient(here, values)
    if replica.num_replicas > 1:  # the same direction on all of them, that of the global batch
        context = tf.distribute.get_replica_context()
        uphill = context.all_reduce(tf.distribute.ReduceOp.SUM, uphill)
    norm = tf.linalg.global_norm(uphill) + 1e-12
    # The direction is a constant: SAM leaves second derivatives out.
    near = [
        value + tf.stop_gradient(RADIUS * gradient / norm)
        for value, gradient in zip(values, uphill, strict=True)
    ]
    per_example = run.losses["main"](labels, predict(near))  # (batch,)
    run.metrics["accuracy"].update_state(labels, predictions, weights)
    return {"main": compute_loss(per_example, weights, model, replica)}
'''

sam = change_of(
    name="sharpness-aware minimization and centralized gradients",
    project="image_classification",
    edits=(
        Edit("steps.py", "", SAM_TRAIN, "train_step"),
        Edit(
            "steps.py",
            "Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]",
            "RADIUS = 0.05  # of the neighborhood of the weights\n\nBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]",
        ),
        Edit(
            "optimizer.py",
            "    return gradients\n",
            "    # Gradient centralization (Yong et al., 2020): kernels get no gradient along the mean of\n"
            "    # the weights of a unit; biases and scales keep theirs.\n"
            "    return [\n"
            "        g - tf.reduce_mean(g, axis=list(range(g.shape.rank - 1)), keepdims=True)\n"
            "        if g.shape.rank > 1\n"
            "        else g\n"
            "        for g in gradients\n"
            "    ]\n",
            "process_gradients",
        ),
        Edit(
            "optimizer.py",
            "return keras.optimizers.Adam(schedule)",
            "return keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)",
        ),
        Edit("config.py", "learning_rate: float = 2e-3", "learning_rate: float = 5e-2"),
    ),
)

# ------------------------------------------------------------------ 5. VICReg

VICREG_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

# Bardes, Ponce & LeCun (2022), VICReg: no negatives; the spread of the features over the batch
# keeps them from being constant.
INVARIANCE, VARIANCE, COVARIANCE = 25.0, 25.0, 1.0
Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, the same with noise, weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's part of the loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same without dropout."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def spread(features: tf.Tensor, present: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """How far each feature is from a deviation of 1, and how correlated they are: two scalars.

    Args:
        features: float (rows, features) of ALL replicas.
        present: float (rows, 1), 0 for padding.
    """
    rows = tf.reduce_sum(present)
    centered = features - tf.math.divide_no_nan(
        tf.reduce_sum(features * present, axis=0), rows
    )
    centered *= present
    # One row has no covariance; it is 0 then.
    covariance = tf.matmul(centered, centered, transpose_a=True) / tf.maximum(rows - 1, 1.0)
    variances = tf.linalg.diag_part(covariance)
    hinge = tf.reduce_mean(tf.nn.relu(1 - tf.sqrt(variances + 1e-4)))
    others = tf.reduce_sum(tf.square(covariance)) - tf.reduce_sum(tf.square(variances))
    return hinge, others / features.shape[1]


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    left, right, weights = batch
    left, right = (run.model(view, training=training) for view in (left, right))
    per_example = tf.reduce_mean(tf.square(left - right), axis=1)  # (rows,)
    there = replica.all_gather(weights) > 0  # (rows of all replicas,)
    present = tf.cast(there, left.dtype)[:, tf.newaxis]
    all_left, all_right = replica.all_gather(left), replica.all_gather(right)
    (hinge, correlated), (other_hinge, other_correlated) = (
        spread(view, present) for view in (all_left, all_right)
    )
    # Every replica computes these of all rows, and the engine adds them up.
    variance = (hinge + other_hinge) / replica.num_replicas
    covariance = (correlated + other_correlated) / replica.num_replicas
    loss = compute_loss(INVARIANCE * per_example, weights, run.model, replica)
    loss += VARIANCE * variance + COVARIANCE * covariance

    # How often an image is the nearest one to itself with noise: of no use to the loss.
    near = tf.matmul(
        tf.math.l2_normalize(left, axis=1), tf.math.l2_normalize(all_right, axis=1), transpose_b=True
    )
    rows = left.shape[0]
    own = replica.index * rows + tf.range(rows)
    run.metrics["accuracy"].update_state(own, tf.where(there, near, -1e9), weights)
    return {"main": loss, "variance": variance, "covariance": covariance}


TRAIN_STEPS = (train_step,)
TERMS = ("variance", "covariance")
EXAMPLES_INTERACT = True  # by the spread over the batch
'''
)

vicreg = change_of(
    name="variance-invariance-covariance without negatives",
    project="contrastive",
    edits=(Edit("steps.py", "", VICREG_STEPS),),
)

# ------------------------------------------------------------------ 6. prototypical episodes

EPISODES_DATA = '''"""Episodes: each asks for classes of digits that a few examples tell apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .config import TaskConfig

DIGITS = Path(__file__).with_name("digits.npz")
# The digits of each split. Those of validation and test are new ones: what is measured is how well
# digits are told apart that training has never shown.
DIGITS_OF = {"train": (0, 1, 3, 4, 6), "validation": (2, 5, 7), "test": (2, 8, 9)}
EPISODES = {"train": 2400, "validation": 288, "test": 288}
WAYS, SHOTS, QUERIES = 3, 1, 2  # classes in an episode, and examples and questions of each


class Episodes:
    """Episode `row`, the same whenever it is asked for."""

    def __init__(self, images: np.ndarray, digits: np.ndarray, split: str) -> None:
        self._of_digit = [images[digits == digit] for digit in DIGITS_OF[split]]
        self._seed = list(EPISODES).index(split)
        self._episodes = EPISODES[split]

    def __len__(self) -> int:
        return self._episodes

    def __getitem__(self, row: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Support float32 (WAYS, SHOTS, h, w, 1), query (questions, h, w, 1); labels int64.

        A label is the place of the class in `support`: it says nothing about which digit it is.
        """
        random = np.random.default_rng((self._seed, row))
        support, query = [], []
        for digit in random.permutation(len(self._of_digit))[:WAYS]:
            images = self._of_digit[digit]
            chosen = images[random.choice(len(images), SHOTS + QUERIES, replace=False)]
            support.append(chosen[:SHOTS])
            query.append(chosen[SHOTS:])
        labels = np.repeat(np.arange(WAYS), QUERIES)
        order = random.permutation(len(labels))
        inputs = {"support": np.stack(support), "query": np.concatenate(query)[order]}
        return inputs, labels[order]


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The episodes of each split."""
    with np.load(DIGITS) as file:
        return {
            split: Episodes(
                (file[f"{split}_images"] / 16).astype("float32")[..., np.newaxis],
                file[f"{split}_labels"],
                split,
            )
            for split in EPISODES
        }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None
'''

EPISODES_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig

FEATURES = 32


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    inputs, *_ = first_examples(datasets["train"], 1)
    return {"support": inputs["support"].shape[1:], "query": inputs["query"].shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Episodes {"support", "query"} -> logits float32 (batch, questions, WAYS).

    A logit is minus the squared distance to the mean features of a class (Snell et al., 2017).
    """
    ops = keras.ops
    inputs = {name: keras.Input(tuple(map(int, adapted[name])), name=name) for name in adapted}
    ways, shots, *shape = inputs["support"].shape[1:]
    questions = inputs["query"].shape[1]
    encoder = _create_encoder(task, tuple(shape))
    support = encoder(ops.reshape(inputs["support"], (-1, *shape)))
    query = encoder(ops.reshape(inputs["query"], (-1, *shape)))
    prototypes = ops.mean(ops.reshape(support, (-1, 1, ways, shots, FEATURES)), axis=3)
    query = ops.reshape(query, (-1, questions, 1, FEATURES))
    return keras.Model(inputs, -ops.sum(ops.square(query - prototypes), axis=-1))


def _create_encoder(task: TaskConfig, shape: tuple[int, ...]) -> keras.Model:
    layers = keras.layers
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input(shape, name="images")
    x = images
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)  # no batch statistics: a class must not show in them
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dropout(task.dropout)(layers.Flatten()(x))
    features = layers.Dense(FEATURES, dtype=keras.config.floatx(), name="features")(x)
    return keras.Model(images, features, name="encoder")
'''

EPISODES_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

# Support and query by name, labels (batch, questions), weights (batch,) of episodes.
Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The training loss of this replica's episodes."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same without dropout, of digits that were never trained on."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    episodes, labels, weights = batch
    logits = run.model(episodes, training=training)  # (batch, questions, WAYS)
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (batch, questions)
    # All episodes have equally many questions.
    per_example = tf.reduce_mean(entropy, axis=1)  # (batch,)
    of_questions = tf.broadcast_to(weights[:, tf.newaxis], labels.shape)
    run.metrics["accuracy"].update_state(labels, logits, of_questions)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False  # images of an episode do, and an episode is an example
'''
)

EPISODES_CONFIG = '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Few-shot classification."""

    learning_rate: float = 2e-3  # learning rate at the start; decays to 0 along a cosine
    dropout: float = 0.1  # dropout rate before and after the hidden layer; 0 disables
    l2: float = 1e-4  # factor of the L2 regularization of the convolutions; 0 disables
    monitor: str = "validation_accuracy"  # column of history.csv that selects the best weights
    larger_is_better: bool = True  # whether larger values of --monitor are better
'''

episodes = change_of(
    name="few-shot episodes with digits in validation that training never shows",
    project="contrastive",
    edits=(
        Edit("data.py", "", EPISODES_DATA),
        Edit("model.py", "", EPISODES_MODEL),
        Edit("steps.py", "", EPISODES_STEPS),
        Edit("config.py", "", EPISODES_CONFIG),
        Edit("predictions.py", "", NO_READERS),
    ),
)

# ------------------------------------------------------------------ 7. mean teacher

MEAN_TEACHER_MODEL = '''"""The models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig

CLASSES = 10


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """A student and its teacher, images -> logits.

    No gradient trains the teacher: its weights are moving averages of the student's, which the
    train step updates.
    """
    shape = tuple(map(int, adapted["shape"]))
    student, teacher = (_create(task, shape, name) for name in ("student", "teacher"))
    teacher.set_weights(student.get_weights())
    teacher.trainable = False
    return {"student": student, "teacher": teacher}


def _create(task: TaskConfig, shape: tuple[int, ...], name: str) -> keras.Model:
    layers = keras.layers
    l2 = keras.regularizers.L2(task.l2)
    images = keras.Input(shape, name="images")
    x = images
    for filters in (16, 32):
        x = layers.Conv2D(filters, 3, padding="same", kernel_regularizer=l2)(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Dropout(task.dropout)(layers.Flatten()(x))
    logits = layers.Dense(CLASSES, dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model(images, logits, name=name)
'''

MEAN_TEACHER_LOSSES = '''"""The losses, and the numbers that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from .config import TaskConfig

UNKNOWN = -1  # the label of an image that nobody has labeled


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    return {"supervised": entropy, "consistency": keras.losses.MeanSquaredError(reduction="none")}


def weights_of_terms(batch: Any) -> dict[str, tf.Tensor]:
    """The weight of each image in each term, float (batch,)."""
    _, labels, weights = batch
    known = tf.cast(labels != UNKNOWN, weights.dtype)
    return {"supervised": weights * known, "consistency": weights}


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many images count in each term, int32 scalars: a few, and all."""
    return {
        name: tf.math.count_nonzero(weights, dtype=tf.int32)
        for name, weights in weights_of_terms(batch).items()
    }
'''

MEAN_TEACHER_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import weights_of_terms

DECAY = 0.98  # of the teacher's weights, less in the first steps
CONSISTENCY, RAMP = 10.0, 100  # factor of the consistency, and steps in which it rises to that
NOISE = 0.1  # standard deviation of what is added to the images, for each model another one

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels or -1 (batch,), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of the student (Tarvainen & Valpola, 2017); the teacher follows its weights."""
    images, labels, _ = batch
    student, teacher = run.models["student"], run.models["teacher"]
    seeds = tf.unstack(tf.random.experimental.stateless_split(replica.seed, 2))
    seen, shown = (
        images + tf.random.stateless_normal(images.shape, seed, 0.0, NOISE, images.dtype)
        for seed in seeds
    )
    logits = student(seen, training=True)
    taught = tf.stop_gradient(tf.nn.softmax(teacher(shown, training=False)))

    step = tf.cast(replica.step, logits.dtype)
    progress = tf.minimum(step / RAMP, 1.0)
    terms = _terms(run, batch, replica, logits, taught)
    ramp = CONSISTENCY * tf.exp(-5 * tf.square(1 - progress))
    loss = terms["supervised"] + ramp * terms["consistency"]

    # Of the student's weights before this step, which are the same on every replica. Some time
    # must pass before an average over 50 steps is better than one over fewer.
    decay = tf.minimum((1 + step) / (10 + step), DECAY)
    for mean, weight in zip(teacher.weights, student.weights, strict=True):
        kept = tf.cast(decay, mean.dtype)
        latest = tf.stop_gradient(tf.convert_to_tensor(weight))
        mean.assign(kept * mean + (1 - kept) * latest)
    weights = weights_of_terms(batch)["supervised"]
    run.metrics["accuracy"].update_state(tf.maximum(labels, 0), logits, weights)
    run.metrics["student_accuracy"].update_state(tf.maximum(labels, 0), logits, weights)
    regularization = tf.nn.scale_regularization_loss(replica.regularization(student))
    return {"main": loss + regularization, **terms}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The teacher's loss: it is the model to be used."""
    images, labels, _ = batch
    student, teacher = run.models["student"], run.models["teacher"]
    logits, learned = teacher(images, training=False), student(images, training=False)
    terms = _terms(run, batch, replica, logits, tf.nn.softmax(learned))
    weights = weights_of_terms(batch)["supervised"]
    run.metrics["accuracy"].update_state(tf.maximum(labels, 0), logits, weights)
    run.metrics["student_accuracy"].update_state(tf.maximum(labels, 0), learned, weights)
    return {"main": terms["supervised"] + CONSISTENCY * terms["consistency"], **terms}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


def _terms(
    run: Run, batch: Batch, replica: Replica, logits: tf.Tensor, others: tf.Tensor
) -> dict[str, tf.Tensor]:
    """This replica's part of the mean over labeled images, and of that over all."""
    known = tf.maximum(batch[1], 0)  # any class will do where the weight is 0
    per_example = {
        "supervised": run.losses["supervised"](known, logits),
        "consistency": run.losses["consistency"](others, tf.nn.softmax(logits)),
    }
    return {
        name: tf.nn.compute_average_loss(
            per_example[name], sample_weight=weights, global_batch_size=replica.global_count[name]
        )
        for name, weights in weights_of_terms(batch).items()
    }


TRAIN_STEPS = (train_step,)
TERMS = ("supervised", "consistency")
EXAMPLES_INTERACT = False
'''
)

mean_teacher = change_of(
    name="mean teacher on a tenth of the labels",
    project="distillation",
    edits=(
        Edit("model.py", "", MEAN_TEACHER_MODEL),
        Edit("losses.py", "", MEAN_TEACHER_LOSSES),
        Edit("steps.py", "", MEAN_TEACHER_STEPS),
        PICTURES,
        Edit(
            "data.py",
            '    return {\n        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))\n'
            "        for split, (images, labels) in splits.items()\n    }\n",
            '    datasets = {\n        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))\n'
            "        for split, (images, labels) in splits.items()\n    }\n"
            '    images, labels = datasets["train"]\n'
            "    # As if nobody had labeled the others: one of ten has a label, -1 is none.\n"
            '    datasets["train"] = images, np.where(np.arange(len(labels)) % 10 == 0, labels, -1)\n'
            "    return datasets\n",
            "create_datasets",
        ),
        Edit(
            "metrics.py",
            'return {"accuracy": keras.metrics.SparseCategoricalAccuracy()}',
            'names = ("accuracy", "student_accuracy")\n'
            "    return {name: keras.metrics.SparseCategoricalAccuracy() for name in names}",
        ),
    ),
)

# ------------------------------------------------------------------ 8. quantization-aware student

QAT_MODEL = '''"""The model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..engine.auxiliary import load_frozen
from ..engine.batches import first_examples
from .config import TaskConfig

CLASSES = 10
TEACHER = Path(__file__).with_name("teacher.keras")
WEIGHT_LEVELS = 3  # on either side of 0: 3 bits
ACTIVATION_LEVELS = 15  # above 0: 4 bits


def rounded(x: tf.Tensor) -> tf.Tensor:
    """Round; the gradient is that of x (straight-through, Bengio et al., 2013)."""
    return x + tf.stop_gradient(tf.round(x) - x)


@keras.saving.register_keras_serializable("my_experiment")
class CoarseDense(keras.layers.Dense):
    """A dense layer whose kernel has few levels, as many as its hardware will have."""

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Float (batch, n) -> (batch, units)."""
        kernel = tf.convert_to_tensor(self.kernel)
        largest = tf.reduce_max(tf.abs(kernel), axis=0, keepdims=True)  # of each unit
        scale = tf.stop_gradient(tf.maximum(largest, 1e-6)) / WEIGHT_LEVELS
        coarse = rounded(kernel / scale) * scale
        return tf.matmul(x, tf.cast(coarse, x.dtype)) + tf.cast(self.bias, x.dtype)


@keras.saving.register_keras_serializable("my_experiment")
class CoarseReLU(keras.layers.Layer):
    """A ReLU with few levels up to `top`, a moving average of an example's largest activation."""

    def build(self, shape: Any) -> None:
        self.top = self.add_weight(
            name="top", shape=(), initializer="ones", trainable=False, dtype="float32"
        )

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Float (batch, n) -> the same shape."""
        x = tf.nn.relu(x)
        top = tf.convert_to_tensor(self.top)
        if training:
            largest = tf.reduce_mean(tf.cast(tf.reduce_max(x, axis=1), "float32"))
            context = tf.distribute.get_replica_context()  # None while the model is made
            if context is not None and context.num_replicas_in_sync > 1:
                # Equally many rows on each, so this is the mean over all rows.
                largest = context.all_reduce(tf.distribute.ReduceOp.SUM, largest)
                largest /= context.num_replicas_in_sync
            top = 0.9 * top + 0.1 * tf.stop_gradient(largest)
            self.top.assign(top)
        scale = tf.cast(tf.maximum(top, 1e-3), x.dtype) / ACTIVATION_LEVELS
        return rounded(tf.minimum(x / scale, ACTIVATION_LEVELS)) * scale


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """A small student in few bits, images -> logits, and the teacher that it learns from."""
    layers = keras.layers
    images = keras.Input(adapted["shape"], name="images")
    x = CoarseReLU(name="relu")(CoarseDense(48, name="hidden")(layers.Flatten()(images)))
    x = layers.Dropout(task.dropout)(x)
    l2 = keras.regularizers.L2(task.l2)
    x = CoarseDense(CLASSES, kernel_regularizer=l2, dtype=keras.config.floatx(), name="logits")(x)
    return {"student": keras.Model(images, x), "teacher": load_frozen(TEACHER)}
'''

quantized = change_of(
    name="quantization-aware student with a tracked range",
    project="distillation",
    edits=(
        Edit("model.py", "", QAT_MODEL),
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.1"),
    ),
)

# ------------------------------------------------------------------ 9. chain-thaw

CHAIN_THAW_CALLBACKS = '''"""Functions that are called during training."""

from __future__ import annotations

from collections.abc import Callable

import keras

from ..engine.callbacks import Callback, Event, at_step
from .config import TaskConfig

# One layer after the other trains alone, the new one first; then all together (chain-thaw, Felbo et
# al., 2017). Normalization never does.
CHAIN = ("logits", "conv2d", "conv2d_1")


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Train each layer of CHAIN alone for --thaw-steps steps, then everything."""

    def only(*names: str) -> Callable[[Event], None]:
        def set_trainable(event: Event) -> None:
            model = event.run.model
            for layer in (*model.get_layer("backbone").layers, model.get_layer("logits")):
                if not isinstance(layer, keras.layers.BatchNormalization):
                    layer.trainable = layer.name in names

        return set_trainable

    alone = [at_step(i * task.thaw_steps, only(name)) for i, name in enumerate(CHAIN)]
    return [*alone, at_step(len(CHAIN) * task.thaw_steps, only(*CHAIN))]
'''

chain_thaw = change_of(
    name="chain-thaw with warm restarts",
    project="finetuning",
    edits=(
        Edit("callbacks.py", "", CHAIN_THAW_CALLBACKS),
        Edit(
            "config.py",
            "frozen_steps: int = 7  # steps in which the last layer trains alone",
            "thaw_steps: int = 5  # steps in which each layer trains alone, before all do",
        ),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
            "    # Three cycles of 1, 2 and 4 parts of the run, each from a lower rate (Loshchilov &\n"
            "    # Hutter, 2017). While the last layer is frozen, its optimizer makes no step.\n"
            "    schedule = keras.optimizers.schedules.CosineDecayRestarts(\n"
            "        task.learning_rate, max(1, -(-steps // 7)), t_mul=2.0, m_mul=0.7, alpha=0.01\n"
            "    )\n",
        ),
    ),
)

# ------------------------------------------------------------------ 10. quantiles

QUANTILE_DATA = '''"""The examples of each split, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

# A header, then a row for each hour: hour, temperature, wind; empty where missing.
SERIES = Path(__file__).with_name("series.csv")
COLUMNS, TARGET = (1, 2), 0  # what is read of a row; which of these to forecast
PAST, FUTURE = 24, 6  # hours


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Streams of inputs float32 (PAST, columns), labels float32 (FUTURE,); NaN where missing."""
    rows = np.genfromtxt(SERIES, np.float32, delimiter=",", skip_header=1, usecols=COLUMNS)
    ends = [int(0.7 * len(rows)), int(0.85 * len(rows))]
    names = ("train", "validation", "test")  # in the order of time
    return {name: _windows(part) for name, part in zip(names, np.split(rows, ends), strict=True)}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None


def _windows(rows: np.ndarray) -> tf.data.Dataset:
    """Every window of consecutive rows, cut when it is needed; the engine shuffles them."""
    series = tf.constant(rows)

    def window(first: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        part = tf.ensure_shape(series[first : first + PAST + FUTURE], (PAST + FUTURE, len(COLUMNS)))
        return part[:PAST], part[PAST:, TARGET]

    return tf.data.Dataset.range(len(rows) - PAST - FUTURE + 1).map(window)
'''

QUANTILE_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import COLUMNS, FUTURE, PAST, TARGET

QUANTILES = (0.1, 0.5, 0.9)


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: the model scales each window by itself."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Past float (batch, PAST, columns) -> quantiles (batch, FUTURE, 3), in units of the data.

    Mean and deviation of its own past are taken off each window, and put back on the forecast
    (RevIN, Kim et al., 2022). A distance that is never negative keeps the quantiles in order.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    past = keras.Input((PAST, len(COLUMNS)), name="past", dtype=floatx)
    missing = ops.isnan(past)
    there = ops.cast(ops.logical_not(missing), floatx)
    hours = ops.maximum(ops.sum(there, axis=1, keepdims=True), 1.0)  # (batch, 1, columns)
    mean = ops.sum(ops.where(missing, 0.0, past), axis=1, keepdims=True) / hours
    centered = ops.where(missing, 0.0, past - mean)
    deviation = ops.sqrt(ops.sum(ops.square(centered), axis=1, keepdims=True) / hours + 1e-2)
    x = layers.Concatenate()([centered / deviation, ops.cast(missing, floatx)])
    x = layers.Dense(task.units, activation="gelu")(layers.Flatten()(x))
    x = layers.Reshape((FUTURE, 3), dtype=floatx)(layers.Dense(FUTURE * 3, dtype=floatx)(x))
    median = x[..., 1:2]
    lower = median - ops.softplus(x[..., 0:1])
    upper = median + ops.softplus(x[..., 2:3])
    x = layers.Concatenate(dtype=floatx)([lower, median, upper])
    own = slice(TARGET, TARGET + 1)
    return keras.Model(past, x * deviation[..., own] + mean[..., own])
'''

QUANTILE_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss, weights_of_values
from .model import QUANTILES

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # past, future (batch, FUTURE), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """The pinball loss of the values that are there, a mean over the quantiles."""
    past, future, _ = batch
    forecast = run.model(past, training=training)  # (batch, FUTURE, quantiles)
    weights = weights_of_values(batch)  # (batch, FUTURE)
    lower, median, upper = tf.unstack(forecast, axis=2)  # each (batch, FUTURE)
    future = tf.where(weights > 0, future, tf.stop_gradient(median))  # without NaN
    error = future[..., tf.newaxis] - forecast
    quantiles = tf.constant(QUANTILES, error.dtype)
    pinball = tf.maximum(quantiles * error, (quantiles - 1) * error)  # (batch, FUTURE, quantiles)
    inside = tf.cast((lower <= future) & (future <= upper), error.dtype)
    run.metrics["coverage"].update_state(inside, weights)  # 0.8 is right, and not 1
    run.metrics["mae"].update_state(tf.abs(future - median), weights)
    return {"main": compute_loss(tf.reduce_mean(pinball, axis=2), weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

QUANTILE_OPTIMIZER = '''"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from .config import TaskConfig


@keras.saving.register_keras_serializable("my_experiment")
class WarmupStableDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Rises in a twentieth of the run, stays, and falls to 0 in the last fifth."""

    def __init__(self, rate: float, steps: int) -> None:
        super().__init__()
        self.rate, self.steps = rate, steps

    def __call__(self, step: Any) -> tf.Tensor:
        """The learning rate of a step, a float32 scalar."""
        step = tf.cast(step, tf.float32)
        rising = (step + 1) / max(1, self.steps // 20)
        falling = (self.steps - step) / max(1, self.steps // 5)
        return self.rate * tf.maximum(tf.minimum(1.0, tf.minimum(rising, falling)), 0.0)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"rate": self.rate, "steps": self.steps}


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """The optimizer. Don't set its clipnorm: --clip-norm clips after the sum over all replicas."""
    return keras.optimizers.Nadam(WarmupStableDecay(task.learning_rate, steps))


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
'''

quantiles = change_of(
    name="quantiles of a stream scaled by each window",
    project="forecasting",
    edits=(
        Edit("data.py", "", QUANTILE_DATA),
        Edit("model.py", "", QUANTILE_MODEL),
        Edit("steps.py", "", QUANTILE_STEPS),
        Edit("optimizer.py", "", QUANTILE_OPTIMIZER),
        Edit(
            "metrics.py",
            '    """The mean absolute error of each hour of the forecast."""\n'
            '    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}',
            '    """The fraction between the outer quantiles, and the error of the median."""\n'
            '    return {"coverage": keras.metrics.Mean(), "mae": keras.metrics.Mean()}',
        ),
        Edit("metrics.py", "from .data import FUTURE\n", ""),
        Edit(
            "config.py",
            "learning_rate: float = 1e-3  # learning rate at the start; decays to 0 along a cosine",
            "learning_rate: float = 3e-3  # largest learning rate",
        ),
    ),
)

# ------------------------------------------------------------------ 11. point process

HAWKES_DATA = '''"""Sequences of events in time, each of which makes more events likely for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

SEQUENCES = {"train": 960, "validation": 200, "test": 200}
HORIZON = 20.0  # how long each sequence is watched
LENGTH = 32  # steps of a sequence at most: events, and what comes after the last one
# The intensity of a Hawkes process: BASE + the sum over past events of JUMP exp(-DECAY age).
BASE, JUMP, DECAY = 0.3, 0.8, 1.6
EVENT, CENSORED, NOTHING = 1, 0, -1  # what ends a gap: an event, the horizon; padding


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Gaps before float32 (n, LENGTH), labels {"gap": float32, "end": int32} of (n, LENGTH)."""
    return {
        split: _sequences(np.random.default_rng(seed), number)
        for seed, (split, number) in enumerate(SEQUENCES.items())
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None for no augmentation."""
    return None


def _sequences(random: np.random.Generator, number: int) -> tuple[np.ndarray, dict[str, Any]]:
    before = np.zeros((number, LENGTH), np.float32)
    gap = np.ones((number, LENGTH), np.float32)  # any positive number will do for NOTHING
    end = np.full((number, LENGTH), NOTHING, np.int32)
    for row in range(number):
        times = _simulate(random)
        gaps = np.diff(times, prepend=0.0)
        gap[row, : len(gaps)], end[row, : len(gaps)] = gaps, EVENT
        before[row, 1 : len(gaps) + 1] = gaps[: LENGTH - 1]
        if len(times) < LENGTH:  # watched until the horizon, and nothing came
            last = times[-1] if len(times) else 0.0
            gap[row, len(times)], end[row, len(times)] = HORIZON - last, CENSORED
    return before, {"gap": gap, "end": end}


def _simulate(random: np.random.Generator) -> np.ndarray:
    """Times of events, by thinning (Ogata, 1981); the first LENGTH, if there are more."""
    times: list[float] = []
    now, excited = 0.0, 0.0  # the part of the intensity that decays
    while len(times) < LENGTH:
        highest = BASE + excited
        wait = random.exponential(1 / highest)
        now, excited = now + wait, excited * np.exp(-DECAY * wait)
        if now > HORIZON:
            break
        if random.random() * highest < BASE + excited:
            times.append(now)
            excited += JUMP
    return np.maximum(np.array(times), 1e-4)
'''

HAWKES_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import LENGTH

COMPONENTS = 4


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Gaps before each step float (batch, LENGTH) -> (batch, LENGTH, 3 COMPONENTS).

    These are logits, locations and log scales of a mixture for the logarithm of the next gap. Steps
    only look back, so padding, which comes last, needs no mask.
    """
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    before = keras.Input((LENGTH,), name="before", dtype=floatx)
    is_first = ops.cast(ops.equal(before, 0.0), floatx)
    x = ops.stack([ops.log(before + 0.01), is_first], axis=2)  # (batch, LENGTH, 2)
    x = layers.GRU(task.units, return_sequences=True)(x)
    return keras.Model(before, layers.Dense(3 * COMPONENTS, dtype=floatx)(x))
'''

HAWKES_LOSSES = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
from .data import EVENT, NOTHING


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """None by name: the step computes likelihoods itself."""
    return {}


def log_likelihoods(outputs: tf.Tensor, gap: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Log density of a gap, and log probability of a longer one, each (batch, T).

    The logarithm of a gap is a mixture of logistic distributions, whose tails are simple.
    """
    logits, location, log_scale = tf.split(outputs, 3, axis=2)  # each (batch, T, components)
    log_share = tf.nn.log_softmax(logits)
    log_gap = tf.math.log(gap)[..., tf.newaxis]
    z = (log_gap - location) * tf.exp(-log_scale)
    longer = -tf.nn.softplus(z)
    density = tf.math.log_sigmoid(z) + longer - log_scale - log_gap
    return (
        tf.reduce_logsumexp(log_share + density, axis=2),
        tf.reduce_logsumexp(log_share + longer, axis=2),
    )


def weights_of_steps(batch: Any) -> tf.Tensor:
    """The weight of each gap, float (batch, T); 0 for padding."""
    _, labels, weights = batch
    return weights[:, tf.newaxis] * tf.cast(labels["end"] != NOTHING, weights.dtype)


def count(batch: Any) -> tf.Tensor:
    """How many events there are, an int32 scalar.

    The likelihood is given per event, as is usual. Gaps without an event at their end are a part of
    it and count as none.
    """
    is_event = tf.cast(batch[1]["end"] == EVENT, batch[-1].dtype)
    return tf.math.count_nonzero(weights_of_steps(batch) * is_event, dtype=tf.int32)


def compute_loss(
    per_step: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas."""
    events = tf.maximum(replica.global_count, 1)  # of few sequences, none may have one
    loss = tf.nn.compute_average_loss(per_step, sample_weight=weights, global_batch_size=events)
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
'''

HAWKES_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .data import EVENT
from .losses import compute_loss, log_likelihoods, weights_of_steps

# Gaps before, {"gap", "end"}, each (batch, T), and weights (batch,).
Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Minus the log-likelihood of the sequences; densities may be above 1, and this below 0."""
    before, labels, _ = batch
    outputs = run.model(before, training=training)
    density, longer = log_likelihoods(outputs, labels["gap"])
    is_event = labels["end"] == EVENT
    per_step = -tf.where(is_event, density, longer)  # (batch, T)
    weights = weights_of_steps(batch)
    # The probability of a shorter gap: 1/2 on average if the model is right.
    rank = 1 - tf.exp(longer)
    run.metrics["rank"].update_state(rank, weights * tf.cast(is_event, weights.dtype))
    return {"main": compute_loss(per_step, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

hawkes = change_of(
    name="neural point process with censored last gaps",
    project="forecasting",
    edits=(
        Edit("data.py", "", HAWKES_DATA),
        Edit("model.py", "", HAWKES_MODEL),
        Edit("losses.py", "", HAWKES_LOSSES),
        Edit("steps.py", "", HAWKES_STEPS),
        Edit(
            "metrics.py",
            '    """The mean absolute error of each hour of the forecast."""\n'
            '    return {f"mae_{hour}": keras.metrics.Mean() for hour in range(1, FUTURE + 1)}',
            '    """How large a gap is among those that were to be expected, from 0 to 1."""\n'
            '    return {"rank": keras.metrics.Mean()}',
        ),
        Edit("metrics.py", "from .data import FUTURE\n", ""),
        Edit("config.py", "learning_rate: float = 1e-3", "learning_rate: float = 1e-2"),
        Edit(
            "config.py",
            "units: int = 32  # units of the hidden layer",
            "units: int = 32  # units of the GRU",
        ),
        Edit("config.py", '"""Forecasting."""', '"""A point process."""'),
    ),
)

# ------------------------------------------------------------------ 12. CTC

CTC_CONFIG = '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Tones in a noisy recording."""

    recordings: int = 960  # of the training data
    width: int = 48  # units of the layers
    learning_rate: float = 1e-2  # largest learning rate; it rises first, then decays to 0
    warmup: float = 0.1  # fraction of the run in which the learning rate rises; 0 disables
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better
'''

CTC_DATA = '''"""Recordings of a few tones, one after the other, and what was played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from ..engine.random_access import RandomAccess
from .config import TaskConfig

RATE, SAMPLES = 2000, 768  # samples in a second, and in a recording
PITCHES = (150, 230, 350, 540, 800)  # Hz of the tones 1, 2, ...; 0 is no tone
FEWEST, MOST = 1, 4  # tones of a recording
SHORTEST, LONGEST, PAUSE = 60, 130, 40  # samples of a tone and after it
FULL = 2**15  # of int16


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Waves float32 (SAMPLES,), from int16; tones int32 (MOST,), 0 after the last one."""
    numbers = {"train": task.recordings, "validation": 192, "test": 192}
    return {
        split: RandomAccess(_record(np.random.default_rng(seed), number), _load)
        for seed, (split, number) in enumerate(numbers.items())
    }


def _load(row: dict[str, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.cast(row["wave"], tf.float32) / FULL, row["tones"]


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Another volume and other noise for each recording."""

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        waves, tones, weights = batch
        of_volume, of_noise = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        volume = tf.random.stateless_uniform((waves.shape[0], 1), of_volume, 0.6, 1.4)
        noise = tf.random.stateless_normal(waves.shape, of_noise, 0.0, 0.02)
        return tf.cast(volume, waves.dtype) * waves + tf.cast(noise, waves.dtype), tones, weights

    return augment


def _record(random: np.random.Generator, number: int) -> dict[str, np.ndarray]:
    waves = random.normal(0, 0.02, (number, SAMPLES))
    tones = np.zeros((number, MOST), np.int32)
    for wave, played in zip(waves, tones, strict=True):
        many = random.integers(FEWEST, MOST + 1)
        played[:many] = random.integers(1, len(PITCHES) + 1, many)  # one may come twice in a row
        place = random.integers(PAUSE)
        for tone in played[:many]:
            length = random.integers(SHORTEST, LONGEST)
            time = np.arange(length) / RATE
            sound = np.sin(2 * np.pi * (PITCHES[tone - 1] * time + random.random()))
            wave[place : place + length] += 0.3 * np.hanning(length) * sound
            place += length + random.integers(10, PAUSE)
    return {"wave": (np.clip(waves, -1, 1) * (FULL - 1)).astype(np.int16), "tones": tones}
'''

CTC_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import TaskConfig
from .data import PITCHES, SAMPLES


@keras.saving.register_keras_serializable("my_experiment")
class LogSpectrogram(keras.layers.Layer):
    """The logarithm of how strong each frequency is in each frame; nothing in it is trained."""

    def __init__(self, frame: int, step: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.frame, self.step = frame, step

    def call(self, waves: tf.Tensor) -> tf.Tensor:
        """Float (batch, samples) -> (batch, frames, 1 + frame / 2)."""
        parts = tf.signal.stft(waves, self.frame, self.step)
        power = tf.square(tf.math.real(parts)) + tf.square(tf.math.imag(parts))
        return tf.math.log(power + 1e-3)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return super().get_config() | {"frame": self.frame, "step": self.step}


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Waves float (batch, SAMPLES) -> logits float32 (batch, frames, 1 + tones), 0 for none."""
    layers, floatx = keras.layers, keras.config.floatx()
    waves = keras.Input((SAMPLES,), name="waves", dtype=floatx)
    x = LogSpectrogram(64, 24, dtype=floatx, name="spectrogram")(waves)  # (batch, frames, 33)
    x = layers.LayerNormalization()(x)
    x = layers.Conv1D(task.width, 3, padding="same", activation="relu")(x)
    x = layers.Bidirectional(layers.GRU(task.width // 2, return_sequences=True))(x)
    logits = layers.Dense(1 + len(PITCHES), dtype=floatx, name="logits")(x)
    return keras.Model(waves, logits)


def decode(logits: Any, length: int) -> tf.Tensor:
    """The likeliest class of each frame, repetitions and 0 left out: int32 (batch, length)."""
    best = tf.argmax(logits, axis=2, output_type=tf.int32)  # (batch, frames)
    before = tf.pad(best[:, :-1], [[0, 0], [1, 0]])
    starts = (best != 0) & (best != before)
    place = tf.cumsum(tf.cast(starts, tf.int32), axis=1) - 1  # in what is decoded
    at = tf.one_hot(tf.where(starts, place, -1), length, dtype=tf.int32)  # none for -1
    return tf.reduce_sum(at * best[..., tf.newaxis], axis=1)
'''

CTC_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class ExactMatch(keras.metrics.Mean):
    """The fraction of recordings of which all tones are right, and no others are heard."""

    def update_state(self, tones: tf.Tensor, heard: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add tones int32 (batch, n) and what was heard int32 (batch, n), 0 after the last one."""
        super().update_state(tf.reduce_all(tones == heard, axis=1), sample_weight)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"exact_match": ExactMatch(), "number_error": keras.metrics.Mean()}
'''

CTC_LOSSES_EDIT = '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name; tones and logits give one number per recording."""

    def ctc(tones: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """Minus the log-probability of the tones at any times (Graves et al., 2006): (batch,)."""
        rows, frames, _ = logits.shape
        return tf.nn.ctc_loss(
            tones,
            logits,
            label_length=tf.math.count_nonzero(tones, axis=1, dtype=tf.int32),
            logit_length=tf.fill((rows,), frames),
            logits_time_major=False,
            blank_index=0,  # which is also what comes after the last tone, and isn't looked at
        )

    return {"main": ctc}
'''

CTC_COUNT = '''def count(batch: Any) -> tf.Tensor:
    """How many recordings of `batch` count, an int32 scalar."""
    weights = batch[-1]  # (batch,), 0 for padding
    return tf.math.count_nonzero(weights, dtype=tf.int32)
'''

CTC_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .data import MOST
from .losses import compute_loss
from .model import decode

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # waves, tones (batch, MOST), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    waves, tones, weights = batch
    logits = run.model(waves, training=training)  # (batch, frames, 1 + tones)
    per_example = run.losses["main"](tones, logits)  # (batch,)
    # Room for one more, so that a tone too many is seen.
    heard = decode(logits, MOST + 1)
    run.metrics["exact_match"].update_state(tf.pad(tones, [[0, 0], [0, 1]]), heard, weights)
    played, found = (tf.math.count_nonzero(t, axis=1, dtype=tf.int32) for t in (tones, heard))
    run.metrics["number_error"].update_state(tf.abs(found - played), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

ctc = change_of(
    name="tones in recordings by connectionist temporal classification",
    project="language_model",
    edits=(
        Edit("config.py", "", CTC_CONFIG),
        Edit("data.py", "", CTC_DATA),
        Edit("model.py", "", CTC_MODEL),
        Edit("metrics.py", "", CTC_METRICS),
        Edit("losses.py", "", CTC_LOSSES_EDIT, "create_losses"),
        Edit("losses.py", "", CTC_COUNT, "count"),
        Edit("losses.py", "per_token", "per_example", "*"),
        Edit("losses.py", "float (batch, T).", "float (batch,)."),
        Edit(
            "losses.py",
            "float (batch, T), 0 for prompts and padding.",
            "float (batch,), 0 for padding.",
        ),
        Edit(
            "losses.py",
            "    # Divided by tokens, not lines: a token weighs the same in short answers as in long ones.\n",
            "",
        ),
        Edit("steps.py", "", CTC_STEPS),
        PICTURES,
        Edit("predictions.py", "", NO_READERS),
    ),
)

# ------------------------------------------------------------------ 13. masked language model

MASKED_DATASETS = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: (tokens, targets, weights), int32, int32 and float32.

    Each has shape (n, T), in training (n, forms, T): a training date comes in every form, others in
    one. Targets are the tokens themselves; weights are 1 for those that are to be filled in, which
    MASK hides. In training `create_augment` chooses them anew in each step; in evaluation they are
    the same in every epoch and run.
    """
    source = random.Random(SEED)
    # Held-out dates first, so that they don't depend on --dates.
    days = source.sample(range(DAYS), VALIDATION_LINES + TEST_LINES + task.dates)
    dates = [FIRST_DAY + datetime.timedelta(day) for day in days]
    held_out = VALIDATION_LINES + TEST_LINES
    text = [_line(date, source.choice(FORMS), source) for date in dates[:held_out]]
    text += [_line(date, form, source) for date in dates[held_out:] for form in FORMS]
    lines = np.array(text, "S").view("uint8").reshape(len(text), -1).astype("int32")  # (n, T)
    is_character = (lines != 0).astype("float32")
    chosen = np.random.default_rng(SEED).random(lines.shape) < HIDDEN
    hidden = np.where(chosen & (lines != 0), MASK, lines).astype("int32")
    evaluated = (hidden, lines, is_character * chosen.astype("float32"))
    train = (lines, lines, is_character)
    return {
        "train": tuple(a[held_out:].reshape(task.dates, len(FORMS), -1) for a in train),
        "validation": tuple(a[:VALIDATION_LINES] for a in evaluated),
        "test": tuple(a[VALIDATION_LINES:held_out] for a in evaluated),
    }
'''

MASKED_AUGMENT = '''def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """A function (global batch, seed) -> global batch that tf.data runs.

    It picks a form of each date, and the tokens to be filled in. Of these 80% are hidden, 10% are
    replaced by other characters and 10% stay what they are (Devlin et al., 2019), since there is no
    MASK where the model will be used.
    """

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        rows, forms, length = batch[0].shape
        seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 4))
        form = tf.random.stateless_uniform((rows,), seeds[0], 0, forms, tf.int32)
        tokens, targets, weights = (
            tf.gather(part, form, axis=1, batch_dims=1) for part in batch
        )  # (batch, T)
        chosen = tf.random.stateless_uniform((rows, length), seeds[1]) < HIDDEN
        chosen &= tokens != 0
        how = tf.random.stateless_uniform((rows, length), seeds[2])
        other = tf.random.stateless_uniform((rows, length), seeds[3], ord(" "), TOKENS, tf.int32)
        changed = tf.where(how < 0.8, MASK, tf.where(how < 0.9, other, tokens))
        tokens = tf.where(chosen, changed, tokens)
        return tokens, targets, weights * tf.cast(chosen, weights.dtype)

    return augment
'''

MASKED_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig
from .data import TOKENS


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    tokens, *_ = first_examples(datasets["train"], 1)
    return {"length": tokens.shape[-1]}


@keras.saving.register_keras_serializable("my_experiment")
class TiedLogits(keras.layers.Layer):
    """Logits of tokens by the embedding that reads them (Press & Wolf, 2017), with a bias."""

    def __init__(self, embedding: keras.layers.Embedding, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.embedding = embedding

    def build(self, shape: Any) -> None:
        self.bias = self.add_weight(name="bias", shape=(TOKENS,), initializer="zeros")

    def call(self, x: Any) -> Any:
        """Float (batch, T, width) -> (batch, T, TOKENS)."""
        table = keras.ops.cast(self.embedding.embeddings, x.dtype)
        return keras.ops.matmul(x, keras.ops.transpose(table)) + self.bias

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        embedding = keras.saving.serialize_keras_object(self.embedding)
        return super().get_config() | {"embedding": embedding}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> TiedLogits:
        """A layer from its arguments."""
        embedding = keras.saving.deserialize_keras_object(config.pop("embedding"))
        return cls(embedding, **config)


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Tokens int32 (batch, T), some of them hidden -> logits float32 (batch, T, TOKENS).

    A token looks at those on either side, but not at padding.
    """
    layers, ops = keras.layers, keras.ops
    length = int(adapted["length"])
    tokens = keras.Input((length,), dtype="int32", name="tokens")
    positions = ops.cumsum(ops.ones_like(tokens), axis=1) - 1  # (batch, T)
    is_character = ops.expand_dims(ops.not_equal(tokens, 0), 1)  # (batch, 1, T): keys
    embedding = layers.Embedding(TOKENS, task.width, name="characters")
    x = embedding(tokens) * float(np.sqrt(task.width))
    x = x + layers.Embedding(length, task.width)(positions)
    for _ in range(task.layers):
        y = layers.LayerNormalization()(x)
        attention = layers.MultiHeadAttention(task.heads, task.width // task.heads)
        x = x + layers.Dropout(task.dropout)(attention(y, y, attention_mask=is_character))
        y = layers.LayerNormalization()(x)
        y = layers.Dense(4 * task.width, activation="gelu")(y)
        x = x + layers.Dropout(task.dropout)(layers.Dense(task.width)(y))
    x = layers.LayerNormalization()(x)
    # Full precision even under --precision float16, where a loss in float16 could overflow.
    return keras.Model(tokens, TiedLogits(embedding, dtype=keras.config.floatx(), name="logits")(x))
'''

MASKED_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

# Tokens, targets and weights, each (batch, T); a weight is 0 where nothing is to be filled in.
Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    tokens, targets, weights = batch
    logits = run.model(tokens, training=training)  # (batch, T, TOKENS)
    per_token = run.losses["main"](targets, logits)  # (batch, T)
    likeliest = tf.argmax(logits, axis=-1, output_type=tf.int32)  # (batch, T)
    run.metrics["token_accuracy"].update_state(targets, logits, weights)
    run.metrics["exact_match"].update_state(targets, likeliest, weights)
    return {"main": compute_loss(per_token, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

masked = change_of(
    name="masked language model whose targets are its own inputs",
    project="language_model",
    edits=(
        Edit("data.py", "", MASKED_DATASETS, "create_datasets"),
        Edit("data.py", "", MASKED_AUGMENT, "create_augment"),
        Edit(
            "data.py",
            'ANSWER_LENGTH = len("1979-05-03\\n")\n',
            "MASK, HIDDEN = 1, 0.2  # what hides a token (no character has this code), and how many\n",
        ),
        Edit("data.py", 'PROMPT_END, LINE_END = ord(">"), ord("\\n")\n', ""),
        Edit("model.py", "", MASKED_MODEL),
        Edit("steps.py", "", MASKED_STEPS),
        Edit(
            "losses.py",
            "The number of tokens in a per-replica batch that belong to answers, an int32 scalar.",
            "How many tokens of `batch` are to be filled in, an int32 scalar.",
        ),
        Edit("config.py", '"validation_exact_match"', '"validation_token_accuracy"'),
        PICTURES,
        Edit("predictions.py", "", NO_READERS),
    ),
)

# ------------------------------------------------------------------ 14. WGAN-GP

WGAN_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

PENALTY = 10.0  # factor of the gradient penalty (Gulrajani et al., 2017)

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, latents (batch, latent), weights (batch,)


def critic_losses(
    run: Run, images: tf.Tensor, generated: tf.Tensor, seed: tf.Tensor, *, training: bool
) -> tf.Tensor:
    """Of each pair, float (batch,): minus how much higher the real image scores, and a penalty."""
    critic = run.models["discriminator"]
    share = tf.random.stateless_uniform((images.shape[0], 1, 1, 1), seed, dtype=images.dtype)
    between = share * images + (1 - share) * generated
    with tf.GradientTape() as tape:
        tape.watch(between)
        scores = critic(between, training=training)
    slopes = tape.gradient(scores, between)  # each score depends on its own image only
    slope = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=[1, 2, 3]) + 1e-12)  # (batch,)
    on_real = critic(images, training=training)[:, 0]
    on_generated = critic(generated, training=training)[:, 0]
    return on_generated - on_real + PENALTY * tf.square(slope - 1)


def critic_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The critic's loss, with latents of its own in each of its steps."""
    images, latents, weights = batch
    seeds = tf.unstack(tf.random.experimental.stateless_split(replica.seed, 2))
    latents = tf.random.stateless_normal(latents.shape, seeds[0], dtype=latents.dtype)
    generated = tf.stop_gradient(run.models["generator"](latents, training=True))
    per_example = critic_losses(run, images, generated, seeds[1], training=True)
    critic = run.models["discriminator"]
    return {"discriminator": compute_loss(per_example, weights, critic, replica)}


def generator_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The generator's loss; the metrics are updated once, here."""
    images, latents, weights = batch
    generator, critic = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=True)  # (batch, h, w, channels)
    per_example = -critic(generated, training=True)[:, 0]  # (batch,)
    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    return {"generator": compute_loss(per_example, weights, generator, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contributions to both validation losses."""
    images, latents, weights = batch
    generator, critic = run.models["generator"], run.models["discriminator"]
    generated = generator(latents, training=False)  # (batch, h, w, channels)
    critics = critic_losses(run, images, generated, replica.seed, training=False)
    generators = -critic(generated, training=False)[:, 0]
    run.metrics["frechet"].update_state(images, generated, weights)
    run.metrics["nearest_distance"].update_state(generated, weights)
    return {
        "discriminator": compute_loss(critics, weights, critic, replica),
        "generator": compute_loss(generators, weights, generator, replica),
    }


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contributions to both test losses."""
    return validation_step(run, batch, replica)


# The critic must be nearly as good as it gets before the generator follows it.
CRITIC_STEPS = 3
TRAIN_STEPS = (*[critic_step] * CRITIC_STEPS, generator_step)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

wgan = change_of(
    name="Wasserstein critic with gradient penalty and three steps",
    project="gan",
    edits=(
        Edit("steps.py", "", WGAN_STEPS),
        Edit(
            "losses.py",
            "",
            "def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:\n"
            '    """None by name: the steps compute scores, which are not probabilities."""\n'
            "    return {}\n",
            "create_losses",
        ),
        Edit(
            "model.py",
            "        x = layers.Dropout(task.dropout)(x)\n",
            "        x = layers.LayerNormalization()(x)  # of each image: the penalty is of each too\n",
            "_create_discriminator",
        ),
        Edit(
            "model.py",
            "the discriminator maps images to logits float32 (batch, 1), high for real images.",
            "the discriminator, a critic, maps images to scores float32 (batch, 1), high for real images.",
        ),
        Edit(
            "config.py",
            "    dropout: float = 0.3  # fraction of the discriminator's features that training drops; 0 disables\n",
            "",
        ),
        Edit(
            "config.py",
            "        if not 0 <= self.dropout < 1:\n"
            '            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")\n',
            "",
        ),
        Edit("config.py", "learning_rate: float = 1e-3", "learning_rate: float = 5e-4"),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n"
            "    # Little momentum, because each model's task changes with the other (Radford et al., 2015).\n"
            "    return {\n"
            '        "generator": keras.optimizers.Adam(schedule, beta_1=0.5),\n'
            '        "discriminator": keras.optimizers.Adam(schedule, beta_1=0.5),\n'
            "    }\n",
            "    cosine = keras.optimizers.schedules.CosineDecay\n"
            "    # The critic's optimizer is called several times in a step, and counts each of them. No\n"
            "    # momentum, because each model's task changes with the other.\n"
            "    updates = steps * CRITIC_STEPS\n"
            "    return {\n"
            '        "generator": keras.optimizers.Adam(\n'
            "            cosine(task.learning_rate, steps), beta_1=0.0, beta_2=0.9\n"
            "        ),\n"
            '        "discriminator": keras.optimizers.Adam(\n'
            "            cosine(task.learning_rate, updates), beta_1=0.0, beta_2=0.9\n"
            "        ),\n"
            "    }\n",
        ),
        Edit(
            "optimizer.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .steps import CRITIC_STEPS\n",
        ),
    ),
)

# ------------------------------------------------------------------ 15. deep supervision

DEEP_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig
from .data import CLASSES

LEVELS = 2  # below full resolution
DROPPED = 0.1  # fraction of the examples for which training leaves out a residual branch


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Images float (batch, h, w, 1) -> {"full", "half", "quarter"}: logits at each resolution.

    Those at lower resolution are for training only (deep supervision, Lee et al., 2015).
    """
    layers, floatx = keras.layers, keras.config.floatx()
    images = keras.Input(adapted["shape"], name="images")
    x, skipped = images, []
    for level in range(LEVELS):
        x = _block(x, task.width * 2**level)
        skipped.append(x)
        x = layers.AveragePooling2D(2)(x)
    x = _block(x, task.width * 2**LEVELS)
    outputs = {"quarter": layers.Conv2D(CLASSES, 1, dtype=floatx, name="quarter")(x)}
    for level, name in ((1, "half"), (0, "full")):
        x = layers.Concatenate()([layers.UpSampling2D()(x), skipped[level]])
        x = _block(x, task.width * 2**level)
        outputs[name] = layers.Conv2D(CLASSES, 1, dtype=floatx, name=name)(x)
    return keras.Model(images, outputs)


def _block(x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
    layers = keras.layers
    x = layers.Conv2D(filters, 3, padding="same", activation="swish")(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=0.1)(x)
    y = layers.Conv2D(filters, 3, padding="same", activation="swish")(x)
    y = layers.BatchNormalization(momentum=0.9, epsilon=0.1)(y)
    # One number for all of an example: its whole branch is left out (Huang et al., 2016).
    return x + layers.Dropout(DROPPED, noise_shape=(None, 1, 1, 1))(y)
'''

DEEP_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .data import CLASSES, IGNORED
from .losses import average_over_pixels, compute_loss
from .metrics import pixel_weights

# How many pixels of a side make one, and the factor of its loss in training, by output.
OUTPUTS = {"full": (1, 1.0), "half": (2, 0.5), "quarter": (4, 0.25)}
FOCUS = 2.0  # of the focal loss (Lin et al., 2017): how little pixels count that are sure
MISSED, INVENTED = 0.7, 0.3  # what a pixel costs in the Tversky index (Salehi et al., 2017)

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch, h, w), weights (batch,)


def losses_of(run: Run, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """A focal loss and a Tversky loss of each example, float (batch,)."""
    # Ignored pixels have loss 0 and, as one-hot, no class at all.
    per_pixel = run.losses["main"](labels, logits)  # (batch, h, w)
    focal = tf.pow(1 - tf.exp(-per_pixel), FOCUS) * per_pixel
    focal = average_over_pixels(focal, labels, run.task.foreground_weight)
    right = tf.one_hot(labels, CLASSES, dtype=logits.dtype)  # (batch, h, w, classes)
    counts = tf.cast(labels != IGNORED, logits.dtype)[..., tf.newaxis]
    found = tf.nn.softmax(logits) * counts
    hit = tf.reduce_sum(right * found, axis=[1, 2])  # (batch, classes)
    missed = tf.reduce_sum(right * (1 - found), axis=[1, 2])
    invented = tf.reduce_sum((1 - right) * found, axis=[1, 2])
    index = (hit + 1) / (hit + MISSED * missed + INVENTED * invented + 1)
    present = tf.cast(tf.reduce_sum(right, axis=[1, 2]) > 0, logits.dtype)  # (batch, classes)
    mean = tf.math.divide_no_nan(
        tf.reduce_sum(index * present, axis=1), tf.reduce_sum(present, axis=1)
    )
    return focal + 1 - mean


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss: of the outputs at all resolutions."""
    images, labels, weights = batch
    outputs = run.model(images, training=True)
    per_example = tf.zeros_like(weights)
    for name, (side, factor) in OUTPUTS.items():
        # One of the pixels, since a mean of labels is no label.
        per_example += factor * losses_of(run, labels[:, ::side, ::side], outputs[name])
    run.metrics["mean_iou"].update_state(labels, outputs["full"], pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss of the output that is used; in training there are two more of lower resolution."""
    images, labels, weights = batch
    logits = run.model(images, training=False)["full"]
    per_example = losses_of(run, labels, logits)
    run.metrics["mean_iou"].update_state(labels, logits, pixel_weights(weights, labels))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

deep = change_of(
    name="deep supervision with focal Tversky loss and stochastic depth",
    project="segmentation",
    edits=(
        Edit("model.py", "", DEEP_MODEL.replace("-> dict[str, keras.Model]:", "-> keras.Model:")),
        Edit("steps.py", "", DEEP_STEPS),
        PICTURES,
        Edit(
            "predictions.py", "np.argmax(outputs, axis=-1)", 'np.argmax(outputs["full"], axis=-1)'
        ),
    ),
)

# ------------------------------------------------------------------ 16. Cox

COX_EXAMPLES = """    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        numeric = np.delete(data[rows], category, axis=1)
        sex = data[rows, category].astype(np.int64)
        labels = {"time": time[rows], "event": event[rows]}
        return {"numeric": numeric, "sex": sex}, labels

    return {
        "train": examples(rest[~is_validation]),
        "validation": examples(rest[is_validation]),
        "test": examples(test),
    }
"""

COX_LOSSES = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig

NEVER = -1e9  # the log risk of who isn't at risk


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """None by name: a patient's loss depends on those who are watched as long as he is."""
    return {}


def weights_of_events(batch: Any) -> tf.Tensor:
    """The weight of each patient in the partial likelihood, float (batch,).

    Those of whom no event is known have none, and still are in the risk sets of others.
    """
    _, labels, weights = batch
    return weights * tf.cast(labels["event"], weights.dtype)


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many events there are; by name, so that a batch without any isn't divided by 0."""
    return {"main": tf.math.count_nonzero(weights_of_events(batch), dtype=tf.int32)}


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica
) -> tf.Tensor:
    """This replica's contribution to the loss, a float scalar: the loss is the sum over replicas."""
    loss = tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count["main"]
    )
    return loss + tf.nn.scale_regularization_loss(replica.regularization(model))
'''

COX_MODEL_TAIL = """    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)
    hidden = layers.Dropout(task.dropout)(hidden)
    # Without a bias: the partial likelihood compares risks, and what is added to all of them
    # would never be trained.
    log_risk = layers.Dense(1, use_bias=False, dtype=floatx, name="log_risk")
    return keras.Model(inputs, log_risk(layers.Concatenate()([x, hidden])))
"""

COX_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import NEVER, compute_loss, weights_of_events

# Inputs by name, {"time": float, "event": 0 or 1}, weights, each (batch,).
Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Cox' partial likelihood, with ties as Breslow treats them."""
    inputs, labels, weights = batch
    log_risk = run.model(inputs, training=training)[:, 0]  # (rows,)
    time, of_event = labels["time"], weights_of_events(batch)
    # Whoever is still watched, on all replicas.
    risks, times = replica.all_gather(log_risk), replica.all_gather(time)
    there = replica.all_gather(weights) > 0
    at_risk = there & (times >= time[:, tf.newaxis])  # (rows, rows of all replicas)
    total = tf.reduce_logsumexp(tf.where(at_risk, risks, NEVER), axis=1)
    per_example = total - log_risk  # (rows,), at least 0
    later = there & (times > time[:, tf.newaxis])
    run.metrics["concordance"].update_state(log_risk, risks, of_event[:, tf.newaxis] * tf.cast(later, of_event.dtype))
    return {"main": compute_loss(per_example, of_event, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = True  # in the risk sets
'''
)

COX_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


class Concordance(keras.metrics.Mean):
    """Harrell's index, of pairs in the same batch: how often the earlier event had the higher risk.

    A pair of the same risk counts half: 0.5 is chance.
    """

    def update_state(self, risk: tf.Tensor, others: tf.Tensor, pair_weight: tf.Tensor) -> None:
        """Add risks (rows,) against (others,); weights (rows, others), 0 if none can be told."""
        difference = risk[:, tf.newaxis] - others
        super().update_state((tf.sign(difference) + 1) / 2, pair_weight)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept weights, which are 0 for padding."""
    return {"concordance": Concordance()}
'''

cox = change_of(
    name="survival by Cox partial likelihood over all replicas",
    project="tabular_regression",
    edits=(
        Edit(
            "data.py",
            "    def examples(rows: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:\n"
            "        numeric = np.delete(data[rows], category, axis=1)\n"
            "        sex = data[rows, category].astype(np.int64)\n"
            '        return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]\n'
            "\n"
            "    inputs, labels = examples(rest[~is_validation])\n"
            "    return {\n"
            '        "train": (inputs, labels, _balance(inputs["sex"])),\n'
            '        "validation": examples(rest[is_validation]),\n'
            '        "test": examples(test),\n'
            "    }\n",
            COX_EXAMPLES,
        ),
        Edit(
            "data.py",
            "    columns, data, target = _load()\n    category = columns.index(CATEGORY)\n",
            "    columns, data, target = _load()\n    category = columns.index(CATEGORY)\n"
            "    time, event = _times(target)\n",
        ),
        Edit(
            "data.py",
            '    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels\n'
            "    float32 (n, 1), weights float32 (n,) with a mean of 1.\n",
            '    Inputs are {"numeric": float32 (n, columns), NaN where missing; "sex": int64 (n,)}, labels\n'
            '    {"time": float32 (n,), "event": int32 (n,)}: how long a patient was watched, and whether\n'
            "    it ended with the event.\n",
        ),
        Edit(
            "data.py",
            "",
            "def _times(target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:\n"
            '    """Simulated times to an event, sooner where the disease progressed far; and events.\n\n'
            "    Times are in tenths, so that some are equal. A third is watched for a shorter time.\n"
            '    """\n'
            "    random = np.random.default_rng(TIME_SEED)\n"
            "    hazard = np.exp(1.5 * (target - target.mean()) / target.std())\n"
            "    event, end = random.exponential(1 / hazard), random.uniform(0.2, 4, len(target))\n"
            "    time = np.ceil(np.minimum(event, end) * 10) / 10\n"
            '    return time.astype("float32"), (event <= end).astype("int32")\n',
            "_balance",
        ),
        Edit(
            "data.py", "MASK_SEED, SPLIT_SEED = 0, 0", "MASK_SEED, SPLIT_SEED, TIME_SEED = 0, 0, 0"
        ),
        Edit("losses.py", "", COX_LOSSES),
        Edit("metrics.py", "", COX_METRICS),
        Edit("steps.py", "", COX_STEPS),
        Edit("model.py", "inputs, labels, _ = datasets", "inputs, _ = datasets"),
        Edit(
            "model.py",
            '        "label_mean": labels.mean(axis=0),\n        "label_variance": labels.var(axis=0),\n',
            "",
        ),
        Edit(
            "model.py",
            '    hidden = layers.Dense(task.width, activation="relu")(x)  # (batch, width)\n'
            "    hidden = layers.Dropout(task.dropout)(hidden)\n"
            "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n"
            '    mean, variance = adapted["label_mean"], adapted["label_variance"]\n'
            "    unscale = layers.Normalization(\n"
            '        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"\n'
            "    )\n"
            "    return keras.Model(inputs, unscale(x))\n",
            COX_MODEL_TAIL,
        ),
        Edit("predictions.py", '"progression"', '"log_risk"'),
        PICTURES,
    ),
)

# ------------------------------------------------------------------ 17. ordinal

ORDINAL_METRICS = '''"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .data import STAGES


class QuadraticKappa(keras.metrics.Metric):
    """Cohen's kappa with quadratic weights: 1 if all are right, 0 for chance."""

    def __init__(self) -> None:
        super().__init__(name="kappa")
        # How often each stage is taken for each; such sums add up over batches and replicas.
        self._counts = self.add_variable((STAGES, STAGES), "zeros", name="counts")

    def update_state(self, stages: tf.Tensor, found: tf.Tensor, sample_weight: tf.Tensor) -> None:
        """Add stages and what was found, int (batch,), with weights (batch,)."""
        weights = tf.cast(sample_weight, self._counts.dtype)[:, tf.newaxis]
        rows, columns = (tf.one_hot(s, STAGES, dtype=weights.dtype) for s in (stages, found))
        self._counts.assign_add(tf.matmul(rows, weights * columns, transpose_a=True))

    def result(self) -> tf.Tensor:
        """A scalar; 0 before the first example."""
        counts = tf.convert_to_tensor(self._counts)
        stage = tf.range(STAGES, dtype=counts.dtype)
        cost = tf.square(stage[:, tf.newaxis] - stage)
        rows, columns = tf.reduce_sum(counts, axis=1), tf.reduce_sum(counts, axis=0)
        chance = tf.math.divide_no_nan(rows[:, tf.newaxis] * columns, tf.reduce_sum(counts))
        share = tf.math.divide_no_nan(tf.reduce_sum(cost * counts), tf.reduce_sum(cost * chance))
        return tf.where(tf.reduce_sum(cost * chance) > 0, 1 - share, 0.0)


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name; they must accept `sample_weight`, which is 0 for padding."""
    return {"kappa": QuadraticKappa(), "off": keras.metrics.Mean()}
'''

ORDINAL_STEPS = (
    STEPS_HEAD
    + '''import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss

Batch = tuple[dict[str, tf.Tensor], tf.Tensor, tf.Tensor]  # inputs, stages (batch,), weights


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same without dropout."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, stages, weights = batch
    logits = run.model(inputs, training=training)  # (batch, STAGES - 1)
    per_example = run.losses["main"](stages, logits)  # (batch,)
    # The stage is how many limits are likelier passed than not.
    found = tf.math.count_nonzero(logits > 0, axis=1)  # int64 (batch,)
    run.metrics["kappa"].update_state(stages, found, weights)
    run.metrics["off"].update_state(tf.abs(found - stages), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

ordinal = change_of(
    name="ordinal stages with a shared score and ordered limits",
    project="tabular_regression",
    edits=(
        Edit(
            "data.py",
            'return {"numeric": numeric, "sex": sex}, target[rows, np.newaxis]',
            'return {"numeric": numeric, "sex": sex}, np.digitize(target[rows], LIMITS)',
        ),
        Edit(
            "data.py",
            "float32 (n, 1), weights float32 (n,) with a mean of 1.",
            "int64 (n,), 0 to 4, weights float32 (n,) with a mean of 1.",
        ),
        Edit(
            "data.py",
            "MASK_SEED, SPLIT_SEED = 0, 0",
            "LIMITS = (70, 110, 160, 230)  # points between the stages of the disease\n"
            "STAGES = len(LIMITS) + 1\nMASK_SEED, SPLIT_SEED = 0, 0",
        ),
        Edit("metrics.py", "", ORDINAL_METRICS),
        Edit("steps.py", "", ORDINAL_STEPS),
        Edit(
            "losses.py",
            '    squared_error = keras.losses.MeanSquaredError(reduction="none")\n\n'
            "    def standardized_error(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:\n"
            '        """Both float (batch, 1) in units of the data -> float (batch,), about 1 - R2 on average.\n\n'
            "        Standardized, since gradients in units of the data would overflow in float16.\n"
            '        """\n'
            "        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)\n\n"
            '    return {"main": standardized_error}\n',
            "\n    def coral(stages: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:\n"
            '        """Stages int (batch,), logits (batch, limits) -> float (batch,) (Cao et al., 2020).\n\n'
            "        A stage has passed all limits below it, so several targets are 1, or none is.\n"
            '        """\n'
            "        limits = tf.range(logits.shape[1], dtype=stages.dtype)\n"
            "        passed = tf.cast(stages[:, tf.newaxis] > limits, logits.dtype)\n"
            "        return tf.reduce_sum(\n"
            "            tf.nn.sigmoid_cross_entropy_with_logits(passed, logits), axis=1\n"
            "        )\n\n"
            '    return {"main": coral}\n',
        ),
        Edit("losses.py", "LABEL_DEVIATION = 77.0  # standard deviation of the labels\n\n\n", "\n"),
        Edit(
            "model.py",
            '        "label_mean": labels.mean(axis=0),\n        "label_variance": labels.var(axis=0),\n',
            "        # Log odds of passing each limit, where nothing is known of a patient.\n"
            '        "log_odds": np.log([np.mean(labels > k) / np.mean(labels <= k) for k in range(STAGES - 1)]),\n',
        ),
        Edit(
            "model.py",
            "    x = layers.Dense(1, dtype=floatx)(layers.Concatenate()([x, hidden]))  # (batch, 1)\n"
            '    mean, variance = adapted["label_mean"], adapted["label_variance"]\n'
            "    unscale = layers.Normalization(\n"
            '        mean=mean, variance=variance, invert=True, dtype=floatx, name="prediction"\n'
            "    )\n"
            "    return keras.Model(inputs, unscale(x))\n",
            "    score = layers.Dense(1, use_bias=False, dtype=floatx)(layers.Concatenate()([x, hidden]))\n"
            '    limits = OrderedLimits(adapted["log_odds"].tolist(), dtype=floatx, name="limits")\n'
            "    return keras.Model(inputs, limits(score))\n",
        ),
        Edit(
            "model.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .data import STAGES\n\n\n"
            '@keras.saving.register_keras_serializable("my_experiment")\n'
            "class OrderedLimits(keras.layers.Layer):\n"
            '    """Adds a bias for each limit, the next one always lower: (batch, 1) -> (batch, limits).\n\n'
            "    Args:\n"
            "        start: the biases at the start, from the highest to the lowest.\n"
            '    """\n\n'
            "    def __init__(self, start: list[float], **kwargs: Any) -> None:\n"
            "        super().__init__(**kwargs)\n"
            "        self.start = start\n\n"
            "    def build(self, shape: Any) -> None:\n"
            "        falls = -np.diff(self.start)\n"
            "        self.first = self.add_weight(\n"
            '            name="first", shape=(1,), initializer=keras.initializers.Constant(self.start[0])\n'
            "        )\n"
            "        self.falls = self.add_weight(\n"
            '            name="falls",\n'
            "            shape=falls.shape,\n"
            "            initializer=lambda shape, dtype: keras.ops.cast(np.log(np.expm1(falls)), dtype),\n"
            "        )\n\n"
            "    def call(self, score: Any) -> Any:\n"
            "        ops = keras.ops\n"
            "        lower = self.first - ops.cumsum(ops.softplus(self.falls))\n"
            "        return score + ops.concatenate([ops.convert_to_tensor(self.first), lower])\n\n"
            "    def get_config(self) -> dict[str, Any]:\n"
            '        return super().get_config() | {"start": self.start}\n',
        ),
        Edit(
            "predictions.py",
            '{"progression": np.asarray(outputs)[:, 0]}',
            '{"stage": (np.asarray(outputs) > 0).sum(axis=1)}',
        ),
        PICTURES,
    ),
)

# ------------------------------------------------------------------ 18. domain-adversarial

DANN_DATA = '''def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels by head.

    Every second image is from another scanner, whose digits are known in validation and test only.

    Raises:
        UsageError: the images are not on this machine and can't be downloaded.
    """
    splits = _load_digits() if task.dataset == "digits" else _load_fashion_mnist()
    random = np.random.default_rng(0)
    datasets = {}
    for split, (images, digits) in splits.items():
        domain = np.arange(len(digits)) % 2  # 1: the other scanner
        other = domain[:, np.newaxis, np.newaxis] == 1
        # It is paler, and brighter to one side.
        light = np.linspace(0, 0.5, images.shape[2]) * random.random((len(digits), 1, 1))
        scanned = np.clip(0.6 * images + light + random.normal(0, 0.05, images.shape), 0, 1)
        known = digits.astype("int64")
        if split == "train":
            known = np.where(domain == 1, -1, known)
        images = np.where(other, scanned, images).astype("float32")[..., np.newaxis]
        datasets[split] = images, {"digit": known, "domain": domain.astype("int64")}
    return datasets
'''

dann = change_of(
    name="domain-adversarial features by gradient reversal",
    project="two_heads",
    edits=(
        Edit("data.py", "", DANN_DATA, "create_datasets"),
        Edit("data.py", "", "", "_two_labels"),
        Edit("losses.py", 'HEADS = ("digit", "even")', 'HEADS = ("digit", "domain")'),
        Edit(
            "model.py",
            '    even = layers.Dense(2, dtype=keras.config.floatx(), name="even")(x)\n'
            '    return keras.Model(images, {"digit": logits, "even": even})\n',
            "    # It learns to tell the scanners apart, and what is below it learns to prevent that.\n"
            '    y = ReverseGradient(0.3, name="reverse")(x)\n'
            '    y = layers.Dense(32, activation="relu")(y)\n'
            '    domain = layers.Dense(2, dtype=keras.config.floatx(), name="domain")(y)\n'
            '    return keras.Model(images, {"digit": logits, "domain": domain})\n',
        ),
        Edit(
            "model.py",
            "CLASSES = 10\n",
            "CLASSES = 10\n\n\n"
            '@keras.saving.register_keras_serializable("my_experiment")\n'
            "class ReverseGradient(keras.layers.Layer):\n"
            '    """Changes nothing; its gradient is multiplied by -strength (Ganin et al., 2016)."""\n\n'
            "    def __init__(self, strength: float, **kwargs: Any) -> None:\n"
            "        super().__init__(**kwargs)\n"
            "        self.strength = strength\n\n"
            "    def call(self, x: tf.Tensor) -> tf.Tensor:\n"
            "        @tf.custom_gradient\n"
            "        def reverse(x: tf.Tensor) -> Any:\n"
            "            return tf.identity(x), lambda gradient: -self.strength * gradient\n\n"
            "        return reverse(x)\n\n"
            "    def get_config(self) -> dict[str, Any]:\n"
            '        return super().get_config() | {"strength": self.strength}\n',
        ),
        Edit("model.py", "import numpy as np\n", "import numpy as np\nimport tensorflow as tf\n"),
    ),
)

# ------------------------------------------------------------------ 19. diffusion

DIFFUSION_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from ..engine.batches import first_examples
from .config import TaskConfig

CLASSES = 10  # and one more for an image of any class
FREQUENCIES = 8


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Numbers, strings and arrays that create_model needs, such as a mean or a vocabulary.

    Called once, when a run starts, and saved with it: predict and export need no data.
    """
    images, *_ = first_examples(datasets["train"], 1)
    return {"shape": images.shape[1:]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"image": with noise, "time": how much of it (batch,), "label": int (batch,)} -> the noise."""
    layers, ops, floatx = keras.layers, keras.ops, keras.config.floatx()
    shape = tuple(map(int, adapted["shape"]))
    inputs = {
        "image": keras.Input(shape, name="image", dtype=floatx),
        "time": keras.Input((), name="time", dtype=floatx),
        "label": keras.Input((), name="label", dtype="int32"),
    }
    frequencies = np.pi * 2.0 ** (np.arange(FREQUENCIES) - 1)
    angles = ops.expand_dims(inputs["time"], 1) * ops.cast(frequencies, floatx)
    place = layers.Concatenate()([ops.sin(angles), ops.cos(angles)])
    place = layers.Concatenate()([place, layers.Embedding(CLASSES + 1, 16)(inputs["label"])])
    place = layers.Dense(64, activation="swish")(place)
    x = layers.Dense(task.width)(layers.Flatten()(inputs["image"]))
    for _ in range(3):
        y = layers.LayerNormalization()(x)
        y = y * (1 + layers.Dense(task.width)(place)) + layers.Dense(task.width)(place)
        y = layers.Dropout(task.dropout)(layers.Dense(task.width, activation="swish")(y))
        x = x + layers.Dense(task.width)(y)
    # All zeros at first: the best guess of who knows nothing. Below it, gradients are 0 in the
    # first step and in no other.
    x = layers.Dense(int(np.prod(shape)), kernel_initializer="zeros", dtype=floatx)(x)
    return keras.Model(inputs, layers.Reshape(shape, dtype=floatx)(x))
'''

DIFFUSION_STEPS = (
    STEPS_HEAD
    + '''import math

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
from .model import CLASSES

EARLIEST, LATEST = 0.02, 0.98  # times; at 0 there is no noise, at 1 nothing else
UNLABELED = 0.1  # fraction of labels that training hides, for classifier-free guidance
MOST_SNR = 5.0  # Hang et al. (2023): what is nearly free of noise counts less
BANDS = ("little", "some", "much")  # noise

Batch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # images, labels (batch,), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The loss at a random time for each image; some labels are hidden."""
    images, labels, weights = batch
    of_label, seed = tf.unstack(tf.random.experimental.stateless_split(replica.seed, 2))
    hidden = tf.random.stateless_uniform(weights.shape, of_label, dtype=weights.dtype) < UNLABELED
    labels = tf.where(hidden, tf.constant(CLASSES, labels.dtype), labels)
    return _step(run, (images, labels, weights), replica, seed, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """With all labels, and in each validation with the same times and noise."""
    return _step(run, batch, replica, replica.seed, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, replica.seed, training=False)


def _step(
    run: Run, batch: Batch, replica: Replica, seed: tf.Tensor, *, training: bool
) -> dict[str, tf.Tensor]:
    images, labels, weights = batch
    of_time, of_noise = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
    time = tf.random.stateless_uniform(weights.shape, of_time, EARLIEST, LATEST, images.dtype)
    noise = tf.random.stateless_normal(images.shape, of_noise, dtype=images.dtype)
    signal, spread = tf.cos(math.pi / 2 * time), tf.sin(math.pi / 2 * time)  # (batch,)
    column = (-1, 1, 1, 1)
    noisy = tf.reshape(signal, column) * (2 * images - 1) + tf.reshape(spread, column) * noise
    inputs = {"image": noisy, "time": time, "label": tf.cast(labels, tf.int32)}
    found = run.model(inputs, training=training)
    error = tf.reduce_mean(tf.square(found - noise), axis=[1, 2, 3])  # (batch,)
    ratio = tf.square(signal / spread)
    per_example = error * tf.minimum(ratio, MOST_SNR) / ratio
    band = tf.cast(time * len(BANDS), tf.int32)
    for number, name in enumerate(BANDS):
        run.metrics[name].update_state(error, weights * tf.cast(band == number, weights.dtype))
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

diffusion = change_of(
    name="diffusion with hidden labels and a last layer of zeros",
    project="vae",
    edits=(
        Edit("model.py", "", DIFFUSION_MODEL),
        Edit("steps.py", "", DIFFUSION_STEPS),
        Edit("losses.py", "", "", "kl_divergence"),
        Edit("losses.py", "", "", "means"),
        Edit(
            "losses.py",
            "",
            "def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:\n"
            '    """None by name: the step squares the errors itself."""\n'
            "    return {}\n",
            "create_losses",
        ),
        Edit(
            "metrics.py",
            "    return {}\n",
            "    # The mean squared error where there is little noise, some, and much: without weights.\n"
            "    return {name: keras.metrics.Mean() for name in BANDS}\n",
        ),
        Edit(
            "metrics.py",
            "from .config import TaskConfig\n",
            "from .config import TaskConfig\nfrom .steps import BANDS\n",
        ),
        Edit(
            "config.py",
            "    l2: float = 1e-4  # factor of the L2 regularization of the convolutions; 0 disables\n",
            "    width: int = 128  # units of the layers\n",
        ),
        Edit(
            "config.py",
            '        for name in ("l2", "shift"):\n            if not getattr(self, name) >= 0:\n                raise ValueError(f"--{name} is {getattr(self, name)}; it must be at least 0.")\n',
            '        if not self.shift >= 0:\n            raise ValueError(f"--shift is {self.shift}; it must be at least 0.")\n',
        ),
        Edit("config.py", "dropout: float = 0.3", "dropout: float = 0.05"),
        Edit("predictions.py", "", NO_READERS),
    ),
)

# ------------------------------------------------------------------ 20. normalizing flow

FLOW_CONFIG = '''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """A normalizing flow."""

    learning_rate: float = 2e-3  # largest learning rate; it rises in a few steps, then decays to 0
    couplings: int = 6  # layers, each of which changes half of the pixels
    width: int = 96  # units of their networks
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better
'''

FLOW_DATA = '''"""The examples of each split."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .config import TaskConfig

DIGITS = Path(__file__).with_name("digits.npz")
LEVELS = 17  # a pixel is 0 to 16


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: images uint8 (n, 8, 8), without labels."""
    with np.load(DIGITS) as file:
        return {split: file[f"{split}_images"] for split in ("train", "validation", "test")}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: an image between the pixels has no whole levels any more."""
    return None
'''

FLOW_MODEL = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..engine.batches import first_examples
from .config import TaskConfig


@keras.saving.register_keras_serializable("my_experiment")
class Coupling(keras.layers.Layer):
    """Scales and shifts half of the numbers, by a network of the other half (Dinh et al., 2017).

    Args:
        number: of the layer, which says which half it changes.
        width: units of the network.
    """

    def __init__(self, number: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.number, self.width = number, width

    def build(self, shape: Any) -> None:
        size = shape[-1]
        # Pairs of layers change either half of another order of the pixels, the same in every run.
        order = np.random.default_rng(self.number // 2).permutation(size)
        self.seen = ((order + self.number) % 2).astype("float32")  # (size,), 1 for what stays
        layers = keras.layers
        self.network = keras.Sequential(
            [
                layers.Dense(self.width, activation="relu"),
                layers.Dense(self.width, activation="relu"),
                # Zeros: at first the layer changes nothing.
                layers.Dense(2 * size, kernel_initializer="zeros"),
            ]
        )
        self.network.build(shape)
        self.limit = self.add_weight(name="limit", shape=(size,), initializer="ones")

    def call(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Float (batch, size) -> the same shape, and the log determinant (batch,)."""
        seen = tf.cast(self.seen, x.dtype)
        log_scale, shift = tf.split(self.network(seen * x), 2, axis=1)
        log_scale = (1 - seen) * tf.convert_to_tensor(self.limit) * tf.tanh(log_scale)
        shift = (1 - seen) * shift
        return x * tf.exp(log_scale) + shift, tf.reduce_sum(log_scale, axis=1)

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"number": self.number, "width": self.width}


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How many pixels an image has."""
    return {"pixels": first_examples(datasets["train"], 1)[0].size}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Numbers float (batch, pixels) -> latents (batch, pixels), log determinants (batch,)."""
    floatx = keras.config.floatx()  # likelihoods need full precision
    numbers = keras.Input((int(adapted["pixels"]),), name="numbers", dtype=floatx)
    x, total = numbers, 0.0
    for number in range(task.couplings):
        x, change = Coupling(number, task.width, dtype=floatx, name=f"coupling_{number}")(x)
        total = total + change
    return keras.Model(numbers, {"latent": x, "log_determinant": total})
'''

FLOW_STEPS = (
    STEPS_HEAD
    + '''import math

import tensorflow as tf

from ..engine.types import Replica, Run
from .data import LEVELS
from .losses import compute_loss

EDGE = 0.05  # keeps the numbers of pixels that are 0 or full finite

Batch = tuple[tf.Tensor, tf.Tensor]  # images uint8 (batch, h, w), weights (batch,)


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


def _step(run: Run, batch: Batch, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    """Bits per pixel: an upper bound of minus the log-probability of whole levels.

    A random part of a level is added to each pixel, in validation too, where it is the same each
    time: a density of whole numbers has no limit (Theis et al., 2016).
    """
    images, weights = batch
    pixels = tf.cast(tf.reshape(images, (images.shape[0], -1)), weights.dtype)
    part = tf.random.stateless_uniform(pixels.shape, replica.seed, dtype=pixels.dtype)
    share = EDGE / 2 + (1 - EDGE) * (pixels + part) / LEVELS  # inside (0, 1)
    numbers = tf.math.log(share) - tf.math.log1p(-share)
    # What the change of variables adds, from pixels to numbers.
    slope = math.log((1 - EDGE) / LEVELS) - tf.math.log(share) - tf.math.log1p(-share)
    outputs = run.model(numbers, training=training)
    normal = -0.5 * (tf.square(outputs["latent"]) + math.log(2 * math.pi))
    log_density = tf.reduce_sum(normal + slope, axis=1) + outputs["log_determinant"]  # (batch,)
    per_example = -log_density / (pixels.shape[1] * math.log(2))
    run.metrics["latent_square"].update_state(  # 1 if latents are as they should be
        tf.reduce_mean(tf.square(outputs["latent"]), axis=1), weights
    )
    return {"main": compute_loss(per_example, weights, run.model, replica)}


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
'''
)

flow = change_of(
    name="normalizing flow of dequantized pixels",
    project="vae",
    edits=(
        Edit("config.py", "", FLOW_CONFIG),
        Edit("data.py", "", FLOW_DATA),
        Edit("model.py", "", FLOW_MODEL),
        Edit("steps.py", "", FLOW_STEPS),
        Edit("losses.py", "", "", "kl_divergence"),
        Edit("losses.py", "", "", "means"),
        Edit(
            "losses.py",
            "",
            "def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:\n"
            '    """None by name: the step computes the likelihood."""\n'
            "    return {}\n",
            "create_losses",
        ),
        Edit(
            "metrics.py", "    return {}\n", '    return {"latent_square": keras.metrics.Mean()}\n'
        ),
        Edit(
            "optimizer.py",
            "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
            "    warmup = min(20, steps // 5)\n"
            "    schedule = keras.optimizers.schedules.CosineDecay(\n"
            "        task.learning_rate / 10,\n"
            "        decay_steps=steps - warmup,\n"
            "        warmup_target=task.learning_rate,\n"
            "        warmup_steps=warmup,\n"
            "    )\n",
        ),
        Edit("predictions.py", "", NO_READERS),
    ),
)

TASKS: tuple[Change, ...] = (
    adversarial,
    bandit,
    long_tail,
    sam,
    vicreg,
    episodes,
    mean_teacher,
    quantized,
    chain_thaw,
    quantiles,
    hawkes,
    ctc,
    masked,
    wgan,
    deep,
    cox,
    ordinal,
    dann,
    diffusion,
    flow,
)

FAULTS: tuple[Fault, ...] = ()
