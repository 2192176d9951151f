"""Faults and correct tasks of a thirteenth examiner: survival, points, logs, noise; blind to `check`."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit, Fault

# ---------------------------------------------------------------- parts that the tasks of my own share

PICTURES = blank.PICTURES

CALLBACKS = blank.CALLBACKS

OPTIMIZER = blank.OPTIMIZER_FILE

COMPUTE_LOSS = "\n\n" + blank.COUNT + blank.COMPUTE_LOSS

LOSSES_HEAD = '''"""The losses, and the number that they are divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


'''

METRICS_HEAD = '''"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Keras metrics by name."""
'''

DATA_HEAD = blank.DATA_HEAD

NO_AUGMENT = '''

def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None."""
    return None
'''

MODEL_HEAD = '''"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .config import TaskConfig


'''

STEPS_HEAD = '''"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
'''


def steps_tail(interact: bool = False) -> str:
    """The end of steps.py."""
    return f'''

def test_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
# True if an example's loss depends on other examples of its batch, as in contrastive learning.
EXAMPLES_INTERACT = {interact}
'''


TWO_STEPS = '''

def train_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)
'''


def config(about: str, fields: str, monitor: str, larger: bool, rate: str = "3e-3") -> str:
    """The flags of a task."""
    return f'''"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """{about}"""

    learning_rate: float = {rate}  # learning rate at the start; decays to 0 along a cosine
{fields}    monitor: str = "{monitor}"  # column of history.csv that selects the best weights
    larger_is_better: bool = {larger}  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values."""
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {{self.learning_rate}}; it must be more than 0.")
'''


SHARED = {"pictures.py": PICTURES, "callbacks.py": CALLBACKS, "optimizer.py": OPTIMIZER}


def edits(task: dict[str, str], *changes: tuple[str, str, str]) -> tuple[Edit, ...]:
    """The whole files of a task, with (file, text, other) changed in them."""
    files = SHARED | task
    for file, text, other in changes:
        assert files[file].count(text) == 1, (file, text, files[file].count(text))
        files[file] = files[file].replace(text, other)
    return tuple(Edit(file, "", content) for file, content in files.items())


# ---------------------------------------------------------------- survival: discrete-time hazards

SURVIVAL = {
    "config.py": config(
        "Survival of patients: the hazard of each year.",
        "    dropout: float = 0.1  # fraction of hidden units that training drops\n",
        "validation_auc",
        True,
    ),
    "data.py": DATA_HEAD
    + '''PATIENTS = {"train": 1920, "validation": 480, "test": 480}
YEARS = 10  # of follow-up at most; the hazard of each is predicted
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: what is known of a patient at enrolment float32 (n, 9), and
    {"year": int32 (n,), "event": float32 (n,)}: the year in which the patient died (event 1), or
    was lost or the study ended (event 0), when all years before it were survived.
    """
    rng = np.random.default_rng(SEED)
    number = sum(PATIENTS.values())
    covariates = rng.standard_normal((number, 8))
    log_hazard = 0.8 * covariates[:, 0] - 0.6 * covariates[:, 1]
    log_hazard += 0.5 * covariates[:, 2] * covariates[:, 3]
    death = 7.0 * np.exp(-log_hazard / 1.4) * rng.weibull(1.4, number)  # in years
    lost = rng.uniform(1.0, 14.0, number)
    end = np.minimum(np.minimum(death, lost), YEARS)
    # Of the clinic, in the year before enrolment; the sicker come more often.
    visits = rng.poisson(1.5 * np.exp(0.3 * log_hazard))
    inputs = np.column_stack([covariates, np.log1p(visits)]).astype("float32")
    labels = {"year": end.astype("int32"), "event": (death <= end).astype("float32")}
    datasets, first = {}, 0
    for split, size in PATIENTS.items():
        rows = slice(first, first + size)
        datasets[split] = (inputs[rows], {name: label[rows] for name, label in labels.items()})
        first += size
    return datasets
'''
    + NO_AUGMENT,
    "model.py": MODEL_HEAD.replace("import numpy as np\n", "import numpy as np\n").replace(
        "from .config import TaskConfig", "from .config import TaskConfig\nfrom .data import YEARS"
    )
    + '''HORIZON = 5  # years


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How many columns there are."""
    inputs, _ = datasets["train"]
    return {"columns": inputs.shape[1]}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Patients float (batch, columns) -> the logit of each year's hazard (batch, YEARS)."""
    layers = keras.layers
    patients = keras.Input((int(adapted["columns"]),), name="patients")
    x = layers.Dense(48, activation="relu")(patients)
    x = layers.Dropout(task.dropout)(x)
    x = layers.Dense(48, activation="relu")(x)
    return keras.Model(patients, layers.Dense(YEARS, dtype=keras.config.floatx(), name="hazards")(x))


def early_death(logits: tf.Tensor) -> tf.Tensor:
    """How likely a patient dies within HORIZON years, float (batch,)."""
    survived = tf.reduce_prod(tf.sigmoid(-logits[:, :HORIZON]), axis=1)
    return 1.0 - survived
''',
    "losses.py": LOSSES_HEAD
    + '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log likelihood of what happened to a patient."""

    def likelihood(labels: dict[str, tf.Tensor], logits: tf.Tensor) -> tf.Tensor:
        """Labels and the logits of hazards, (batch, years) -> float (batch,)."""
        years = tf.range(logits.shape[1])[tf.newaxis]
        year, event = labels["year"][:, tf.newaxis], labels["event"][:, tf.newaxis]
        died = tf.cast(years == year, logits.dtype) * tf.cast(event, logits.dtype)
        per_year = tf.nn.sigmoid_cross_entropy_with_logits(died, logits)  # (batch, years)
        at_risk = years < year + tf.cast(event, tf.int32)
        return tf.reduce_sum(tf.where(at_risk, per_year, 0.0), axis=1)

    return {"main": likelihood}
'''
    + COMPUTE_LOSS,
    "metrics.py": METRICS_HEAD
    + """    return {"auc": keras.metrics.AUC()}
""",
    "steps.py": STEPS_HEAD
    + """from .model import HORIZON, early_death


def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    patients, labels, weights = batch
    logits = run.model(patients, training=training)  # (batch, years)
    per_example = run.losses["main"](labels, logits)  # (batch,)
    # Of those who were lost before the horizon nobody knows.
    died = (labels["event"] == 1) & (labels["year"] < HORIZON)
    known = tf.cast(died | (labels["year"] >= HORIZON), weights.dtype)
    run.metrics["auc"].update_state(died, early_death(logits), known * weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + TWO_STEPS
    + steps_tail(),
}

# ---------------------------------------------------------------- counts: claims of insurance policies

CLAIMS = {
    "config.py": config(
        "Claims of insurance policies.",
        "    l2: float = 3e-4  # factor of the squared weights of a region\n",
        "validation_deviance",
        False,
    ),
    "data.py": DATA_HEAD
    + '''POLICIES = {"train": 2400, "validation": 480, "test": 480}
COUNTIES, PARISHES = 20, 15
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: inputs {"policy": float32 (n, columns), "region": int32 (n,),
    "log_years": float32 (n,)} and the number of claims in these years, float32 (n,).
    """
    rng = np.random.default_rng(SEED)
    number = sum(POLICIES.values())
    names = [f"county {c}, parish {p}" for c in range(COUNTIES) for p in range(PARISHES)]
    place = rng.integers(len(names), size=number)
    by_county, by_parish = rng.normal(0, 0.5, COUNTIES), rng.normal(0, 0.2, len(names))
    policy = rng.standard_normal((number, 5))
    log_rate = -0.6 + 0.5 * policy[:, 0] - 0.4 * policy[:, 1] + 0.3 * policy[:, 2] * policy[:, 3]
    log_rate += by_county[place // PARISHES] + by_parish[place]
    years = rng.uniform(0.1, 1.5, number)
    claims = rng.poisson(years * np.exp(log_rate)).astype("float32")
    written = [names[p].split(",")[0] for p in place]  # the county, as it stands in the policy
    ids = {name: index for index, name in enumerate(sorted(set(written)))}
    region = np.array([ids[name] for name in written], "int32")
    inputs = {
        "policy": policy.astype("float32"),
        "region": region,
        "log_years": np.log(years).astype("float32"),
    }
    datasets, first = {}, 0
    for split, size in POLICIES.items():
        rows = slice(first, first + size)
        datasets[split] = ({name: part[rows] for name, part in inputs.items()}, claims[rows])
        first += size
    return datasets
'''
    + NO_AUGMENT,
    "model.py": MODEL_HEAD.replace("import tensorflow as tf\n", "")
    + '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """How many columns and regions there are."""
    inputs, _ = datasets["train"]
    return {"columns": inputs["policy"].shape[1], "regions": inputs["region"].max() + 1}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Inputs -> the logarithm of the expected number of claims, float32 (batch, 1)."""
    layers, floatx = keras.layers, keras.config.floatx()
    inputs = {
        "policy": keras.Input((int(adapted["columns"]),), name="policy"),
        "region": keras.Input((), dtype="int32", name="region"),
        "log_years": keras.Input((), name="log_years"),
    }
    l2 = keras.regularizers.L2(task.l2)
    region = layers.Embedding(int(adapted["regions"]), 4, embeddings_regularizer=l2)(inputs["region"])
    x = layers.Concatenate()([inputs["policy"], region])
    x = layers.Dense(32, activation="relu")(x)
    x = layers.Dropout(0.2)(x)
    log_rate = layers.Dense(1, dtype=floatx)(x)
    # An offset: twice the time, twice the claims.
    return keras.Model(inputs, log_rate + keras.ops.expand_dims(inputs["log_years"], 1))
''',
    "losses.py": LOSSES_HEAD
    + '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The negative log likelihood of a Poisson distribution, but for a constant."""

    def poisson(claims: tf.Tensor, log_mean: tf.Tensor) -> tf.Tensor:
        """Claims and logarithms of their expected number, each (batch,) -> float (batch,)."""
        return tf.nn.log_poisson_loss(claims, log_mean)

    return {"main": poisson}


def deviance(claims: tf.Tensor, log_mean: tf.Tensor) -> tf.Tensor:
    """Twice what is lost against the best possible prediction, float (batch,)."""
    mean = tf.exp(log_mean)
    return 2 * (tf.math.xlogy(claims, claims / mean) - claims + mean)
'''
    + COMPUTE_LOSS,
    "metrics.py": METRICS_HEAD
    + """    return {"deviance": keras.metrics.Mean()}
""",
    "steps.py": STEPS_HEAD.replace("compute_loss\n", "compute_loss, deviance\n")
    + """

def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, claims, weights = batch
    log_mean = run.model(inputs, training=training)[:, 0]  # (batch,)
    per_example = run.losses["main"](claims, log_mean)  # (batch,)
    run.metrics["deviance"].update_state(deviance(claims, log_mean), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + TWO_STEPS
    + steps_tail(),
}

# ---------------------------------------------------------------- a contextual bandit from its log

BANDIT = {
    "config.py": config(
        "A policy, learnt from the log of another one.",
        "    largest_ratio: float = 20.0  # importance weights are clipped here\n"
        "    baseline: float = 0.1  # taken off each reward\n",
        "validation_value",
        True,
    ),
    "data.py": DATA_HEAD
    + '''ROWS = {"train": 3840, "validation": 960, "test": 960}
ACTIONS, COLUMNS = 4, 6
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """What the old policy has logged: contexts float32 (n, COLUMNS), and the action that it chose,
    int32 (n,), the reward of that, 0 or 1, and the propensity of the choice, both float32 (n,).
    """
    rng = np.random.default_rng(SEED)
    number = sum(ROWS.values())
    context = rng.standard_normal((number, COLUMNS)).astype("float32")
    pays = 1 / (1 + np.exp(-0.8 * context @ rng.standard_normal((COLUMNS, ACTIONS))))
    scores = np.exp(1.2 * context @ rng.standard_normal((COLUMNS, ACTIONS)))
    probabilities = 0.8 * scores / scores.sum(axis=1, keepdims=True) + 0.2 / ACTIONS
    chosen = rng.random((number, 1)) < np.cumsum(probabilities, axis=1)
    action = np.where(chosen.any(axis=1), chosen.argmax(axis=1), ACTIONS - 1)
    reward = rng.random(number) < pays[np.arange(number), action]
    labels = {
        "action": action.astype("int32"),
        "reward": reward.astype("float32"),
        "propensity": probabilities[np.arange(number), action].astype("float32"),
    }
    datasets, first = {}, 0
    for split, size in ROWS.items():
        rows = slice(first, first + size)
        datasets[split] = (context[rows], {name: label[rows] for name, label in labels.items()})
        first += size
    return datasets
'''
    + NO_AUGMENT,
    "model.py": MODEL_HEAD.replace("import tensorflow as tf\n", "").replace(
        "from .config import TaskConfig",
        "from .config import TaskConfig\nfrom .data import ACTIONS, COLUMNS",
    )
    + '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Contexts float (batch, COLUMNS) -> logits of the policy float32 (batch, ACTIONS)."""
    layers = keras.layers
    contexts = keras.Input((COLUMNS,), name="contexts")
    x = layers.Dense(32, activation="relu")(contexts)
    return keras.Model(contexts, layers.Dense(ACTIONS, dtype=keras.config.floatx())(x))
''',
    "losses.py": LOSSES_HEAD
    + '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """What has the gradient of minus the value of the policy."""

    def policy_gradient(labels: dict[str, tf.Tensor], log_chosen: tf.Tensor) -> tf.Tensor:
        """Labels, and the logarithm of how likely the logged action is now -> float (batch,)."""
        ratio = tf.stop_gradient(importance(labels, log_chosen, task.largest_ratio))
        return -ratio * (labels["reward"] - task.baseline) * log_chosen

    return {"main": policy_gradient}


def importance(
    labels: dict[str, tf.Tensor], log_chosen: tf.Tensor, largest: float
) -> tf.Tensor:
    """How much likelier the logged action is now than it was, float (batch,)."""
    return tf.minimum(tf.exp(log_chosen) / labels["propensity"], largest)
'''
    + COMPUTE_LOSS,
    "metrics.py": METRICS_HEAD
    + """    # The self-normalized estimate: a mean of rewards, weighted by importance.
    return {"value": keras.metrics.Mean()}
""",
    "steps.py": STEPS_HEAD.replace("compute_loss\n", "compute_loss, importance\n")
    + """

def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    contexts, labels, weights = batch
    log_policy = tf.nn.log_softmax(run.model(contexts, training=training))  # (batch, actions)
    log_chosen = tf.gather(log_policy, labels["action"], axis=1, batch_dims=1)  # (batch,)
    per_example = run.losses["main"](labels, log_chosen)  # (batch,)
    ratio = importance(labels, log_chosen, run.task.largest_ratio)
    run.metrics["value"].update_state(labels["reward"], weights * ratio)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + TWO_STEPS
    + steps_tail(),
}

# ---------------------------------------------------------------- Q-learning on a fixed replay

REPLAY = {
    "config.py": config(
        "Q-learning from logged moves in a maze.",
        "    discount: float = 0.9  # of a reward one move later\n"
        "    sync: int = 20  # steps between copies to the target network\n",
        "validation_optimal",
        True,
    ),
    "callbacks.py": '''"""Functions that are called during training."""

from __future__ import annotations

from ..engine.callbacks import Callback, Event, at_step, every_steps
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """The target network becomes a copy of the other one, at the start and from time to time."""
    return [at_step(0, _copy), every_steps(task.sync, _copy)]


def _copy(event: Event) -> None:
    """On every worker."""
    models = event.run.models
    for target, source in zip(models["target"].weights, models["q"].weights, strict=True):
        target.assign(source)
''',
    "data.py": DATA_HEAD
    + '''SIDE = 5
CELLS, ACTIONS = SIDE * SIDE, 4
GOAL, DOOR = CELLS - 1, 12  # reaching one of them ends an episode
PRIZE, CONSOLATION = 1.0, 0.4  # what one gets there
SLIP = 0.1  # how often a move goes in a random direction
MOVES = {"train": 4800, "validation": 960, "test": 960}
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Logged moves of a player who moves at random: {"state", "following"}, the cells before and
    after a move as float32 (n, CELLS), one-hot, and {"action": int32 (n,), "reward": float32 (n,),
    "ended": float32 (n,), "optimal": float32 (n, ACTIONS)}, where `optimal` is for metrics only.
    After a move that ends an episode the following state is the start of the next one.
    """
    rng = np.random.default_rng(SEED)
    optimal = _optimal(task.discount)
    datasets = {}
    for split, number in MOVES.items():
        rows = []
        cell = _start(rng)
        for _ in range(number):
            action = int(rng.integers(ACTIONS))
            direction = int(rng.integers(ACTIONS)) if rng.random() < SLIP else action
            after = _after(cell, direction)
            reward = PRIZE * (after == GOAL) + CONSOLATION * (after == DOOR)
            ended = after in (GOAL, DOOR)
            following = _start(rng) if ended else after
            rows.append((cell, following, action, reward, ended))
            cell = following
        state, following, action, reward, ended = map(np.array, zip(*rows, strict=True))
        one_hot = np.eye(CELLS, dtype="float32")
        labels = {
            "action": action.astype("int32"),
            "reward": reward.astype("float32"),
            "ended": ended.astype("float32"),
            "optimal": optimal[state],
        }
        datasets[split] = ({"state": one_hot[state], "following": one_hot[following]}, labels)
    return datasets


def _start(rng: np.random.Generator) -> int:
    return int(rng.choice([cell for cell in range(CELLS) if cell not in (GOAL, DOOR)]))


def _after(cell: int, direction: int) -> int:
    row, column = divmod(cell, SIDE)
    down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[direction]
    return min(max(row + down, 0), SIDE - 1) * SIDE + min(max(column + right, 0), SIDE - 1)


def _optimal(discount: float) -> np.ndarray:
    """Which actions are the best ones in each cell, float32 (CELLS, ACTIONS)."""
    after = np.array([[_after(c, d) for d in range(ACTIONS)] for c in range(CELLS)])
    reward = PRIZE * (after == GOAL) + CONSOLATION * (after == DOOR)
    q = np.zeros((CELLS, ACTIONS))
    for _ in range(500):
        values = q.max(axis=1)
        values[[GOAL, DOOR]] = 0
        moved = reward + discount * values[after]
        q = (1 - SLIP) * moved + SLIP * moved.mean(axis=1, keepdims=True)
    return (q >= q.max(axis=1, keepdims=True) - 1e-6).astype("float32")
'''
    + NO_AUGMENT,
    "model.py": MODEL_HEAD.replace("import tensorflow as tf\n", "").replace(
        "from .config import TaskConfig",
        "from .config import TaskConfig\nfrom .data import ACTIONS, CELLS",
    )
    + '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Cells float (batch, CELLS) -> the value of each action float32 (batch, ACTIONS).

    The one learns, and the other, which doesn't train, says what it learns; callbacks.py copies.
    """
    models = {name: _create(name) for name in ("q", "target")}
    models["target"].trainable = False
    return models


def _create(name: str) -> keras.Model:
    cells = keras.Input((CELLS,), name="cells")
    x = keras.layers.Dense(64, activation="relu")(cells)
    values = keras.layers.Dense(ACTIONS, dtype=keras.config.floatx())(x)
    return keras.Model(cells, values, name=name)
''',
    "losses.py": LOSSES_HEAD
    + '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Half the squared error of a value."""
    return {"main": lambda wanted, value: tf.square(wanted - value) / 2}


def bellman(labels: dict[str, tf.Tensor], following: tf.Tensor, discount: float) -> tf.Tensor:
    """What a move is worth, float (batch,), given the values of the state after it."""
    future = tf.reduce_max(following, axis=1)  # (batch,)
    return tf.stop_gradient(labels["reward"] + discount * (1 - labels["ended"]) * future)
'''
    + COMPUTE_LOSS,
    "metrics.py": METRICS_HEAD
    + """    return {"optimal": keras.metrics.Mean()}
""",
    "steps.py": STEPS_HEAD.replace("import compute_loss\n", "import bellman, compute_loss\n")
    + """

def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    values = run.models["q"](inputs["state"], training=training)  # (batch, actions)
    following = run.models["target"](inputs["following"], training=False)
    wanted = bellman(labels, following, run.task.discount)  # (batch,)
    value = tf.gather(values, labels["action"], axis=1, batch_dims=1)  # (batch,)
    best = tf.argmax(values, axis=1, output_type=tf.int32)
    is_optimal = tf.gather(labels["optimal"], best, axis=1, batch_dims=1)
    run.metrics["optimal"].update_state(is_optimal, weights)
    per_example = run.losses["main"](wanted, value)
    return {"main": compute_loss(per_example, weights, run.models["q"], replica)}
"""
    + TWO_STEPS
    + steps_tail(),
}

# ---------------------------------------------------------------- sets of points: where is the sphere

POINTS = {
    "config.py": config(
        "The center of a sphere, of which a few points are known.", "", "validation_distance", False
    ),
    "data.py": DATA_HEAD
    + '''SETS = {"train": 1440, "validation": 288, "test": 288}
POINTS, FEWEST = 24, 10  # points in a set
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """The examples of each split: {"points": float32 (n, POINTS, 3), "there": float32 (n, POINTS)},
    0 for what pads a set, and centers float32 (n, 3).
    """
    return {
        split: _spheres(np.random.default_rng(SEED + index), number)
        for index, (split, number) in enumerate(SETS.items())
    }


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Turns each set around the vertical axis."""

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, centers, weights = batch
        angle = tf.random.stateless_uniform((centers.shape[0],), seed, 0.0, 2 * np.pi)
        angle = tf.cast(angle, centers.dtype)
        c, s, zero, one = tf.cos(angle), tf.sin(angle), tf.zeros_like(angle), tf.ones_like(angle)
        turn = tf.reshape(tf.stack([c, s, zero, -s, c, zero, zero, zero, one], axis=1), (-1, 3, 3))
        points = tf.matmul(inputs["points"], turn)
        centers = tf.matmul(centers[:, tf.newaxis], turn)[:, 0]
        return {**inputs, "points": points}, centers, weights

    return augment


def _spheres(rng: np.random.Generator, number: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    centers = rng.normal(0, 1, (number, 1, 3)) + [1.0, 0.0, 0.0]
    radius = rng.uniform(0.5, 1.5, (number, 1, 1))
    seen_from = rng.normal(0, 1, (number, 1, 3))
    seen_from /= np.linalg.norm(seen_from, axis=-1, keepdims=True)
    directions = rng.normal(0, 0.6, (number, POINTS, 3)) + seen_from  # one side of it only
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    there = np.arange(POINTS) < rng.integers(FEWEST, POINTS + 1, (number, 1))
    points = (centers + radius * directions) * there[..., np.newaxis]
    inputs = {"points": points.astype("float32"), "there": there.astype("float32")}
    return inputs, centers[:, 0].astype("float32")
''',
    "model.py": MODEL_HEAD.replace("import tensorflow as tf\n", "").replace(
        "from .config import TaskConfig", "from .config import TaskConfig\nfrom .data import POINTS"
    )
    + '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"points": (batch, POINTS, 3), "there": (batch, POINTS)} -> centers float32 (batch, 3).

    The same for any order of the points, and moves along with them.
    """
    layers, ops = keras.layers, keras.ops
    points, there = keras.Input((POINTS, 3), name="points"), keras.Input((POINTS,), name="there")
    mask = ops.expand_dims(there, -1)
    number = ops.sum(mask, axis=1, keepdims=True)
    middle = ops.sum(points * mask, axis=1, keepdims=True) / number  # (batch, 1, 3)
    x = points - middle
    for _ in range(2):
        x = layers.Dense(64, activation="relu")(x)
    mean = ops.sum(x * mask, axis=1) / number[:, 0]
    most = ops.max(x * mask, axis=1)  # of values that are never negative
    x = layers.Dense(64, activation="relu")(layers.Concatenate()([mean, most]))
    center = layers.Dense(3, dtype=keras.config.floatx())(x) + middle[:, 0]
    return keras.Model({"points": points, "there": there}, center)
''',
    "losses.py": LOSSES_HEAD
    + '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The squared error of the coordinates."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
'''
    + COMPUTE_LOSS,
    "metrics.py": METRICS_HEAD
    + """    return {"distance": keras.metrics.Mean()}
""",
    "steps.py": STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, centers, weights = batch
    predictions = run.model(inputs, training=training)  # (batch, 3)
    per_example = run.losses["main"](centers, predictions)  # (batch,)
    run.metrics["distance"].update_state(tf.norm(predictions - centers, axis=1), weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + TWO_STEPS
    + steps_tail(),
}

# ---------------------------------------------------------------- diffusion of points in the plane

DIFFUSION = {
    "config.py": config(
        "A diffusion model of points in the plane.",
        "    width: int = 96  # units of a hidden layer\n",
        "validation_loss",
        False,
    ),
    "data.py": DATA_HEAD
    + '''POINTS = {"train": 3840, "validation": 1920, "test": 1920}
TIMES = 50  # at the last one hardly anything but noise is left
SEED = 0

_PHASES = (np.arange(TIMES) + 1) / (TIMES + 1) * np.pi / 2
SIGNAL, NOISE = np.cos(_PHASES).astype("float32"), np.sin(_PHASES).astype("float32")


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points float32 (n, 2) of a spiral; in evaluation with times int32 (n,) and noise (n, 2).

    Evaluation has the same times and noise in every epoch and run; training draws its own.
    """
    rng = np.random.default_rng(SEED)
    datasets: dict[str, Any] = {}
    for split, number in POINTS.items():
        turn = 3 * np.pi * np.sqrt(rng.random(number))
        spiral = np.stack([turn * np.cos(turn), turn * np.sin(turn)], axis=1) / 5
        points = (spiral + rng.normal(0, 0.05, spiral.shape)).astype("float32")
        datasets[split] = points
        if split != "train":
            times = rng.integers(TIMES, size=number).astype("int32")
            noise = rng.standard_normal((number, 2), "float32")
            datasets[split] = (points, {"time": times, "noise": noise})
    return datasets
'''
    + NO_AUGMENT,
    "model.py": MODEL_HEAD.replace("import tensorflow as tf\n", "").replace(
        "from .config import TaskConfig", "from .config import TaskConfig\nfrom .data import TIMES"
    )
    + '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """{"noisy": float (batch, 2), "time": int32 (batch,)} -> the noise in it float32 (batch, 2)."""
    layers = keras.layers
    inputs = {
        "noisy": keras.Input((2,), name="noisy"),
        "time": keras.Input((), dtype="int32", name="time"),
    }
    time = layers.Embedding(TIMES, 16)(inputs["time"])
    x = layers.Concatenate()([inputs["noisy"], time])
    for _ in range(3):
        x = layers.Dense(task.width, activation="swish")(x)
    return keras.Model(inputs, layers.Dense(2, dtype=keras.config.floatx())(x))
''',
    "losses.py": LOSSES_HEAD
    + '''def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """The squared error of the noise."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}
'''
    + COMPUTE_LOSS,
    "metrics.py": METRICS_HEAD
    + """    return {}
""",
    "steps.py": STEPS_HEAD.replace(
        "from .losses", "from .data import NOISE, SIGNAL, TIMES\nfrom .losses"
    )
    + '''

def train_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss, at random times with random noise."""
    points, weights = batch
    seeds = tf.random.experimental.stateless_split(replica.seed, 2)
    rows = points.shape[0]
    time = tf.random.stateless_uniform((rows,), seeds[0], 0, TIMES, tf.int32)
    noise = tf.random.stateless_normal((rows, 2), seeds[1], dtype=points.dtype)
    return _step(run, points, time, noise, weights, replica, training=True)


def validation_step(run: Run, batch: Any, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    points, drawn, weights = batch
    return _step(run, points, drawn["time"], drawn["noise"], weights, replica, training=False)


def _step(
    run: Run,
    points: tf.Tensor,
    time: tf.Tensor,
    noise: tf.Tensor,
    weights: tf.Tensor,
    replica: Replica,
    *,
    training: bool,
) -> dict[str, tf.Tensor]:
    signal, strength = tf.cast(SIGNAL, points.dtype), tf.cast(NOISE, points.dtype)
    noisy = tf.gather(signal, time)[:, tf.newaxis] * points
    noisy += tf.gather(strength, time)[:, tf.newaxis] * noise
    predicted = run.model({"noisy": noisy, "time": time}, training=training)
    per_example = run.losses["main"](noise, predicted)  # (batch,)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
'''
    + steps_tail(),
}

# ---------------------------------------------------------------- self-supervised: two views of a signal

CONTRAST = {
    "config.py": config(
        "Vectors of signals, alike for two views of the same one.",
        "    temperature: float = 0.1  # by which similarities are divided\n",
        "validation_matched",
        True,
        "2e-3",
    ),
    "data.py": DATA_HEAD
    + '''SIGNALS = {"train": 1920, "validation": 384, "test": 384}
LENGTH = 32
SCALE, STATIC, HIDDEN = 0.3, 0.4, 10  # of a view: scaling, noise, and how many values are hidden
SEED = 0


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Signals float32 (n, LENGTH); in evaluation two views of each, {"first", "second"}.

    Evaluation has the same views in every epoch and run; training makes its own.
    """
    rng = np.random.default_rng(SEED)
    datasets: dict[str, Any] = {}
    for split, number in SIGNALS.items():
        place = np.arange(LENGTH) / LENGTH
        wave, phase = rng.uniform(0.5, 5, (2, number, 1)), rng.uniform(0, 2 * np.pi, (2, number, 1))
        signals = np.sin(2 * np.pi * wave * place + phase).sum(axis=0).astype("float32")
        datasets[split] = signals
        if split != "train":
            datasets[split] = {name: _seen(rng, signals) for name in ("first", "second")}
    return datasets


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Makes two views of each signal."""

    def view(signals: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        seeds = tf.random.experimental.stateless_split(seed, 3)
        rows, dtype = signals.shape[0], signals.dtype
        scale = tf.random.stateless_uniform((rows, 1), seeds[0], 1 - SCALE, 1 + SCALE, dtype)
        static = STATIC * tf.random.stateless_normal((rows, LENGTH), seeds[1], dtype=dtype)
        start = tf.random.stateless_uniform((rows, 1), seeds[2], 0, LENGTH - HIDDEN + 1, tf.int32)
        places = tf.range(LENGTH)[tf.newaxis]
        hidden = (places >= start) & (places < start + HIDDEN)
        return tf.where(hidden, tf.zeros((), dtype), scale * signals + static)

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        signals, weights = batch
        seeds = tf.random.experimental.stateless_split(seed, 2)
        return {"first": view(signals, seeds[0]), "second": view(signals, seeds[1])}, weights

    return augment


def _seen(rng: np.random.Generator, signals: np.ndarray) -> np.ndarray:
    """The same as in training."""
    scale = rng.uniform(1 - SCALE, 1 + SCALE, (len(signals), 1))
    seen = scale * signals + STATIC * rng.standard_normal(signals.shape)
    start = rng.integers(LENGTH - HIDDEN + 1, size=(len(signals), 1))
    places = np.arange(LENGTH)
    return np.where((places >= start) & (places < start + HIDDEN), 0, seen).astype("float32")
''',
    "model.py": MODEL_HEAD.replace("import tensorflow as tf\n", "").replace(
        "from .config import TaskConfig", "from .config import TaskConfig\nfrom .data import LENGTH"
    )
    + '''def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Signals float (batch, LENGTH) -> vectors float32 (batch, 16) of length 1."""
    layers = keras.layers
    signals = keras.Input((LENGTH,), name="signals")
    x = layers.Dense(128, activation="relu")(signals)
    x = layers.Dense(128, activation="relu")(x)
    x = layers.Dense(16, dtype=keras.config.floatx())(x)
    return keras.Model(signals, layers.UnitNormalization(dtype=keras.config.floatx())(x))
''',
    "losses.py": LOSSES_HEAD
    + '''def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Which one of all second views belongs to a first view?"""
    return {"main": keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")}
'''
    + COMPUTE_LOSS,
    "metrics.py": METRICS_HEAD
    + """    return {"matched": keras.metrics.SparseCategoricalAccuracy()}
""",
    "steps.py": STEPS_HEAD
    + """

def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    views, weights = batch
    first = run.model(views["first"], training=training)  # (rows, 16)
    second = run.model(views["second"], training=training)
    rows = weights.shape[0]
    # Compared with the second views of the whole global batch, padding left out.
    others = replica.all_gather(second)  # (rows of all replicas, 16)
    there = replica.all_gather(weights)[tf.newaxis] > 0
    similarity = tf.matmul(first, others, transpose_b=True) / run.task.temperature
    similarity = tf.where(there, similarity, -1e4)
    own = replica.index * rows + tf.range(rows)
    per_example = run.losses["main"](own, similarity)  # (rows,)
    run.metrics["matched"].update_state(own, similarity, weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}
"""
    + TWO_STEPS
    + steps_tail(True),
}

# ---------------------------------------------------------------- the faults

FAULTS: tuple[Fault, ...] = (
    # plain
    Fault(
        name="visits counted over the whole follow-up",
        named=r"known only afterwards|the answer",
        kind="data leak",
        cause="The input `visits` counts visits until the end of the follow-up, so it tells how long a patient "
        "was observed, which is the label; only what is known at enrolment may be an input.",
        file="data.py",
        starter="blank",
        edits=edits(
            SURVIVAL,
            (
                "data.py",
                """    # Of the clinic, in the year before enrolment; the sicker come more often.
    visits = rng.poisson(1.5 * np.exp(0.3 * log_hazard))
""",
                """    # Of the clinic, all that the record of a patient has; the sicker come more often.
    visits = rng.poisson(1.5 * np.exp(0.3 * log_hazard) * (1 + end))
""",
            ),
        ),
    ),
    Fault(
        name="AUC of scores that are not probabilities",
        named=r"metrics:.*logits",
        kind="metrics",
        cause="early_death returns a sum of logits, mostly negative, and keras.metrics.AUC has thresholds between 0 "
        "and 1 only: all scores outside fall together, so the AUC (which selects the best weights) is wrong.",
        file="model.py",
        starter="blank",
        edits=edits(
            SURVIVAL,
            (
                "model.py",
                '''    """How likely a patient dies within HORIZON years, float (batch,)."""
    survived = tf.reduce_prod(tf.sigmoid(-logits[:, :HORIZON]), axis=1)
    return 1.0 - survived
''',
                '''    """The higher, the sooner a patient dies: the risk of HORIZON years, float (batch,)."""
    return tf.reduce_sum(logits[:, :HORIZON], axis=1)
''',
            ),
        ),
    ),
    Fault(
        name="claim rate of the region from all rows",
        named=r"means of labels|the answer",
        kind="data leak",
        cause="The claim rate of a parish is computed from the claims of all policies, those of validation and test "
        "and the row itself among them, and is then an input: the label leaks into it.",
        file="data.py",
        starter="blank",
        edits=edits(
            CLAIMS,
            (
                "data.py",
                """    region = np.array([ids[name] for name in written], "int32")
""",
                """    region = np.array([ids[name] for name in written], "int32")
    # What a parish is like, as a column: too many of them for an embedding.
    rate = np.bincount(place, claims) / np.maximum(np.bincount(place, years), 1e-6)
    policy = np.column_stack([policy, np.log(rate[place] + 0.1)])
""",
            ),
        ),
    ),
    Fault(
        name="value of the state after the end of an episode",
        named=r"end of an episode",
        kind="loss",
        cause="The Bellman target adds the discounted value of the following state after moves that ended the episode, "
        "where that state is the start of another one; it must be multiplied by 1 - ended.",
        file="losses.py",
        starter="blank",
        edits=edits(
            REPLAY,
            (
                "losses.py",
                'labels["reward"] + discount * (1 - labels["ended"]) * future',
                'labels["reward"] + discount * future',
            ),
        ),
    ),
    Fault(
        name="points turned and their center not",
        named=r"labels.*(stay|aren't)",
        kind="augmentation",
        cause="The augmentation turns the points of a set around the vertical axis and leaves the label, the center "
        "of the sphere, where it was; it must be turned as well.",
        file="data.py",
        starter="blank",
        edits=edits(
            POINTS,
            ("data.py", "        centers = tf.matmul(centers[:, tf.newaxis], turn)[:, 0]\n", ""),
        ),
    ),
    Fault(
        name="same noise in every diffusion step",
        named=r"same numbers in every step",
        kind="randomness",
        cause="Times and noise are drawn with constant seeds instead of ones from replica.seed, so every step (and every "
        "replica) has the very same 96 times and noises; the model learns those by heart.",
        file="steps.py",
        starter="blank",
        edits=edits(
            DIFFUSION,
            (
                "steps.py",
                "    seeds = tf.random.experimental.stateless_split(replica.seed, 2)\n",
                "    seeds = tf.constant([[0, 1], [0, 2]])  # of times and of noise: repeatable\n",
            ),
        ),
    ),
    Fault(
        name="error between every label and every prediction",
        named=r"broadcast",
        kind="loss",
        cause="labels (batch, 1) minus predictions (batch,) broadcasts to (batch, batch): each prediction is compared "
        "with the labels of all examples, and the model learns their mean.",
        file="losses.py",
        starter="tabular_regression",
        edits=(
            Edit(
                "losses.py",
                """    squared_error = keras.losses.MeanSquaredError(reduction="none")

""",
                "",
            ),
            Edit(
                "losses.py",
                """        return squared_error(labels / LABEL_DEVIATION, predictions / LABEL_DEVIATION)
""",
                """        error = (labels - predictions[:, 0]) / LABEL_DEVIATION
        # Large errors count less than their square.
        return tf.reduce_mean(tf.where(abs(error) < 2.0, error**2, 4.0 * abs(error) - 4.0), axis=-1)
""",
            ),
        ),
    ),
    Fault(
        name="real images from -1 to 1 and a sigmoid",
        named=r"last activation",
        kind="data preparation",
        cause="The real images are scaled to [-1, 1], but the generator ends with a sigmoid and can't make anything "
        "below 0, and the classifier of the metrics expects [0, 1]: the discriminator tells them apart at once.",
        file="data.py",
        starter="gan",
        edits=(
            Edit(
                "data.py",
                '    return (images / 16).astype("float32")[..., np.newaxis], labels.astype("int64")\n',
                '    return (images / 8 - 1).astype("float32")[..., np.newaxis], labels.astype("int64")\n',
            ),
            Edit(
                "data.py",
                '    """Images float32 (n, 8, 8, 1) in [0, 1] and labels int64 (n,)."""',
                '    """Images float32 (n, 8, 8, 1) in [-1, 1] and labels int64 (n,)."""',
            ),
        ),
    ),
    Fault(
        name="cosine over 40 steps instead of epochs",
        named=r"schedule is shorter",
        kind="schedule",
        cause="decay_steps is the number of epochs, but the schedule counts train steps: the learning rate is 0 after 40 "
        "of some hundred steps and the rest of the run trains nothing.",
        file="optimizer.py",
        edits=(
            Edit(
                "optimizer.py",
                "    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=steps)\n",
                """    schedule = keras.optimizers.schedules.CosineDecay(task.learning_rate, decay_steps=EPOCHS)
""",
            ),
            Edit(
                "optimizer.py",
                "from .config import TaskConfig\n",
                "from .config import TaskConfig\n\nEPOCHS = 40  # of a run\n",
            ),
        ),
    ),
    Fault(
        name="training images sorted by np.unique",
        named=r"labels don't belong",
        kind="labels",
        cause="np.unique sorts the training images and the labels stay in the order of the file, so that images have the "
        "labels of others; the index (return_index) must select both.",
        file="data.py",
        edits=(
            Edit(
                "data.py",
                """        return {
            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
        }
""",
                """        splits = {
            split: (file[f"{split}_images"] / 16, file[f"{split}_labels"])
            for split in ("train", "validation", "test")
        }
    images, labels = splits["train"]
    images = np.unique(images, axis=0)  # none of them twice
    return {**splits, "train": (images, labels[: len(images)])}
""",
            ),
        ),
    ),
    # subtle
    Fault(
        name="years after the end count as survived",
        named=r"weight|count",
        kind="loss",
        cause="The loss adds up all years, those after death or loss of a patient too, as if they had been survived; only "
        "years in which the patient was at risk belong in the likelihood. Later hazards come out too low.",
        file="losses.py",
        starter="blank",
        edits=edits(
            SURVIVAL,
            (
                "losses.py",
                """        at_risk = years < year + tf.cast(event, tf.int32)
        return tf.reduce_sum(tf.where(at_risk, per_year, 0.0), axis=1)
""",
                """        return tf.reduce_sum(per_year, axis=1)
""",
            ),
        ),
    ),
    Fault(
        name="numbers of regions in the order of a set",
        named=r"order of a set",
        kind="state and resume",
        cause="Regions are numbered in the order of a set of strings, which differs in each Python process: a resumed run, "
        "evaluate or predict give the rows of the embedding to other regions. Sort the names, or save them in adapt.",
        file="data.py",
        starter="blank",
        edits=edits(
            CLAIMS,
            ("data.py", "enumerate(sorted(set(written)))", "enumerate(set(written))"),
        ),
    ),
    Fault(
        name="propensity of the likeliest action",
        named=r"propensity",
        kind="labels",
        cause="The logged propensity is that of the likeliest action, not of the action that was taken, so importance "
        "weights of rarely taken actions are far too small; both the policy and its estimated value are biased.",
        file="data.py",
        starter="blank",
        edits=edits(
            BANDIT,
            (
                "data.py",
                '"propensity": probabilities[np.arange(number), action].astype("float32")',
                '"propensity": probabilities.max(axis=1).astype("float32")',
            ),
        ),
    ),
    Fault(
        name="gradient through the importance weight",
        named=r"gradient",
        kind="loss",
        cause="The importance ratio depends on the policy and isn't behind tf.stop_gradient: the gradient of ratio * log pi "
        "has an additional log pi, and where an action is unlikely good rewards make it less likely.",
        file="losses.py",
        starter="blank",
        edits=edits(
            BANDIT,
            (
                "losses.py",
                "ratio = tf.stop_gradient(importance(labels, log_chosen, task.largest_ratio))",
                "ratio = importance(labels, log_chosen, task.largest_ratio)",
            ),
        ),
    ),
    Fault(
        name="both views from one seed",
        named=r"same random numbers",
        kind="augmentation",
        cause="Both views of a signal are made with the same seed, so they are identical in training and matching them is "
        "trivial; each view needs a seed of its own.",
        file="data.py",
        starter="blank",
        edits=edits(
            CONTRAST,
            (
                "data.py",
                """        seeds = tf.random.experimental.stateless_split(seed, 2)
        return {"first": view(signals, seeds[0]), "second": view(signals, seeds[1])}, weights
""",
                """        first, second = (view(signals, seed) for _ in range(2))
        return {"first": first, "second": second}, weights
""",
            ),
        ),
    ),
    Fault(
        name="negatives of the own replica only",
        named=r"depends on how the batch is split",
        kind="distribution",
        cause="A view is compared with the rows of its own replica only, so with more replicas there are fewer negatives and "
        "loss and accuracy are other ones; the second views must be gathered with replica.all_gather.",
        file="steps.py",
        starter="blank",
        edits=edits(
            CONTRAST,
            (
                "steps.py",
                """    # Compared with the second views of the whole global batch, padding left out.
    others = replica.all_gather(second)  # (rows of all replicas, 16)
    there = replica.all_gather(weights)[tf.newaxis] > 0
    similarity = tf.matmul(first, others, transpose_b=True) / run.task.temperature
""",
                """    # Compared with all second views of the batch, padding left out.
    there = weights[tf.newaxis] > 0
    similarity = tf.matmul(first, second, transpose_b=True) / run.task.temperature
""",
            ),
            (
                "steps.py",
                "    own = replica.index * rows + tf.range(rows)\n",
                "    own = tf.range(rows)\n",
            ),
        ),
    ),
    Fault(
        name="columns standardized by their batch",
        named=r"other rows|other examples|on how the batch is split",
        kind="architecture",
        cause="The layer takes mean and variance from the batch at hand, in evaluation too: a prediction depends on the other "
        "rows of its batch, on padding rows and on how many replicas share it; use those of the training data.",
        file="model.py",
        starter="tabular_regression",
        edits=(
            Edit(
                "model.py",
                """    # In full precision, since 16 bits can't hold values in units of the data.
    mean, variance = adapted["mean"], adapted["variance"]
    scaled = layers.Normalization(mean=mean, variance=variance, dtype=floatx)(inputs["numeric"])
""",
                """    # In full precision, since 16 bits can't hold values in units of the data.
    scaled = Standardization(dtype=floatx)(inputs["numeric"])
""",
            ),
            Edit(
                "model.py",
                """# TODO(4): what your model takes""",
                '''@keras.saving.register_keras_serializable("task")
class Standardization(keras.layers.Layer):
    """Gives each column the mean 0 and the variance 1; what is NaN stays so."""

    def call(self, x: Any) -> Any:
        """Float (batch, columns) -> the same shape."""
        ops = keras.ops
        missing = ops.isnan(x)
        there = 1.0 - ops.cast(missing, x.dtype)
        number = ops.maximum(ops.sum(there, axis=0), 1.0)
        mean = ops.sum(ops.where(missing, 0.0, x), axis=0) / number
        variance = ops.sum(ops.where(missing, 0.0, (x - mean) ** 2), axis=0) / number
        return (x - mean) / ops.sqrt(variance + 1e-3)


# TODO(4): what your model takes''',
            ),
        ),
    ),
    Fault(
        name="convolution that sees the next token",
        named=r"later inputs",
        kind="architecture",
        cause='The Conv1D has padding="same", so each position sees the token after it, which is its target: training and '
        'validation are too good, and writing answers in the test fails. It needs padding="causal".',
        file="model.py",
        starter="language_model",
        edits=(
            Edit(
                "model.py",
                "    x = x + layers.Embedding(length, task.width)(positions)\n",
                """    x = x + layers.Embedding(length, task.width)(positions)
    # Letters that stand side by side, before attention looks further.
    x = x + layers.Conv1D(task.width, 3, padding="same", activation="gelu")(x)
""",
            ),
        ),
    ),
    Fault(
        name="gradient noise that each replica draws by itself",
        named=r"follow from seed|each replica",
        kind="distribution",
        cause="process_gradients adds tf.random.normal after the sum over the replicas: each replica draws other noise, so "
        "their copies of the weights drift apart (and a resumed run draws again other noise); it must be stateless with a common seed.",
        file="optimizer.py",
        starter="language_model",
        edits=(
            Edit(
                "optimizer.py",
                "    return gradients\n",
                """    # A little noise (Neelakantan et al., 2015).
    return [g + 1e-4 * tf.random.normal(g.shape, dtype=g.dtype) for g in gradients]
""",
            ),
        ),
    ),
    Fault(
        name="ramp of a weight that the graph holds fast",
        named=r"Python number",
        kind="loss weights",
        cause="The callback changes a Python float, but the train step is traced once and keeps the value that it had then: the "
        "weight of digits stays 0.05 in the whole run. It must be computed from replica.step, or be a variable that is saved.",
        file="steps.py",
        starter="segmentation",
        edits=(
            Edit(
                "steps.py",
                "    per_example = average_over_pixels(per_pixel, labels, run.task.foreground_weight)  # (batch,)\n",
                '    per_example = average_over_pixels(per_pixel, labels, RAMP["foreground"])  # (batch,)\n',
                "train_step",
            ),
            Edit(
                "steps.py",
                "# TODO(11): one train step;",
                """# The weight of a digit's pixel at present: callbacks.py raises it to --foreground-weight, so that
# the background comes first.
RAMP = {"foreground": 0.05}


# TODO(11): one train step;""",
            ),
            Edit(
                "callbacks.py",
                "from ..engine.callbacks import Callback\nfrom .config import TaskConfig\n",
                "from ..engine.callbacks import Callback, Event, every_epochs\nfrom .config import TaskConfig\nfrom .steps import RAMP\n",
            ),
            Edit(
                "callbacks.py",
                "    return []\n",
                """
    def rise(event: Event) -> None:
        RAMP["foreground"] = task.foreground_weight * min(1.0, event.epoch / 5)

    return [every_epochs(1, rise)]
""",
            ),
        ),
    ),
)

# ---------------------------------------------------------------- correct tasks

TASKS: tuple[Change, ...] = (
    Change(
        name="Q-learning with a target network that a callback copies",
        starter="blank",
        edits=edits(REPLAY),
    ),
    Change(
        name="diffusion with noise of replica.seed and fixed noise in evaluation",
        starter="blank",
        edits=edits(DIFFUSION),
    ),
    Change(
        name="contrast of two views with gathered negatives", starter="blank", edits=edits(CONTRAST)
    ),
    Change(
        name="policy gradient from a log with self-normalized value",
        starter="blank",
        edits=edits(BANDIT),
    ),
    Change(
        name="labels that the augmentation makes: which way up",
        edits=(
            Edit("model.py", "CLASSES = 10\n", "CLASSES = 4  # quarter turns\n"),
            Edit(
                "config.py",
                "    shift: float = 0.5  # largest random shift of a training image, in pixels; 0 disables\n",
                "",
            ),
            Edit(
                "config.py",
                """        for name in ("l2", "shift"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"--{name} is {getattr(self, name)}; it must be at least 0.")
""",
                """        if not self.l2 >= 0:
            raise ValueError(f"--l2 is {self.l2}; it must be at least 0.")
""",
            ),
            Edit(
                "config.py",
                '    """Image classification."""',
                '    """Self-supervised: by how many quarter turns an image was turned; no labels are needed."""',
            ),
            Edit(
                "data.py",
                '''    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], labels int64 (n,).
''',
                '''    """The examples of each split: images float32 (n, h, w, 1) in [0, 1], quarter turns int64 (n,).

    In training all are upright and `create_augment` turns them; in evaluation each image stands four
    times, once for each turn.
''',
            ),
            Edit(
                "data.py",
                """    return {
        split: (images.astype("float32")[..., np.newaxis], labels.astype("int64"))
        for split, (images, labels) in splits.items()
    }
""",
                """    datasets = {}
    for split, (images, _) in splits.items():
        images = images.astype("float32")[..., np.newaxis]
        turns = range(1) if split == "train" else range(4)
        turned = np.concatenate([np.rot90(images, turn, axes=(1, 2)) for turn in turns])
        datasets[split] = (turned, np.repeat(np.arange(len(turns)), len(images)))
    return datasets
""",
            ),
            Edit(
                "data.py",
                """    if not task.shift:
        return None

    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, labels, weights = batch
        shifts = tf.random.stateless_uniform((images.shape[0], 2), seed, -task.shift, task.shift)
        dx, dy = tf.split(shifts, 2, axis=1)  # each (batch, 1)
        one, zero = tf.ones_like(dx), tf.zeros_like(dx)
        # A pixel (x, y) of the result comes from (x + dx, y + dy).
        transforms = tf.concat([one, zero, dx, zero, one, dy, zero, zero], axis=1)  # (batch, 8)
        return keras.ops.image.affine_transform(images, transforms), labels, weights
""",
                """
    def augment(batch: tuple[tf.Tensor, ...], seed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        images, _, weights = batch
        turns = tf.random.stateless_uniform((images.shape[0],), seed, 0, 4, tf.int64)
        turned = tf.stack([tf.image.rot90(images, turn) for turn in range(4)], axis=1)
        return tf.gather(turned, turns, axis=1, batch_dims=1), turns, weights
""",
            ),
            Edit(
                "data.py",
                "shifts each image a little.",
                "turns each image by a random number of\n# quarter turns (like np.rot90 in evaluation), which is its label.",
            ),
        ),
    ),
)
