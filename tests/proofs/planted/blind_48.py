"""Tasks of an examiner, of four kinds that no starter is, and six faults in each."""

from __future__ import annotations

from . import blank
from .edits import Change, Edit, Fault
from .unusual import change_of, fault_in


def whole(**files: str) -> tuple[Edit, ...]:
    """Edits that replace files of task/, by their names without .py."""
    return blank.fill({name: text.lstrip("\n") for name, text in files.items()})


# ------------------------------------------------------------------------------------------------
# Transcription: connectionist temporal classification of utterances of several speakers.

TRANSCRIPTION = whole(
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Transcription of utterances into symbols, by connectionist temporal classification."""

    learning_rate: float = 4e-3  # learning rate at the start; decays to 0 along a cosine
    dropout: float = 0.1  # dropout rate before and after the hidden layer; 0 disables
    noise: float = 0.3  # standard deviation of what is added to training frames; 0 disables
    monitor: str = "validation_symbol_error_rate"  # column of history.csv that selects the best
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 0 <= self.dropout < 1:
            raise ValueError(f"--dropout is {self.dropout}; it must be at least 0 and less than 1.")
        if not self.noise >= 0:
            raise ValueError(f"--noise is {self.noise}; it must be at least 0.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
    data='''
"""Utterances by speaker, and the augmentation of training batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from .config import TaskConfig

ALPHABET = "abcdefgh"  # symbol i is ALPHABET[i - 1]; 0 is padding, and the blank of the model
FRAMES, FEATURES, SYMBOLS = 36, 12, 6  # largest length of an utterance, and of its transcript
SPEAKERS = {"train": 40, "validation": 8, "test": 8}  # no speaker is in two splits
UTTERANCES = 24  # of each speaker


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Utterances of each split.

    Inputs: "frames" float32 (n, FRAMES, FEATURES), zero after their "length" int32 (n,).
    Labels: "symbols" int32 (n, SYMBOLS), zero after their "length" int32 (n,).
    """
    rng = np.random.default_rng(48)
    sounds = rng.normal(size=(len(ALPHABET), FEATURES))
    number = sum(SPEAKERS.values())
    utterances = [_speak(rng, sounds, UTTERANCES) for _ in range(number)]
    speakers = np.repeat(np.arange(number), UTTERANCES)
    whole = {name: np.concatenate([u[name] for u in utterances]) for name in utterances[0]}
    datasets, first = {}, 0
    for split, speakers_of_split in SPEAKERS.items():
        rows = (speakers >= first) & (speakers < first + speakers_of_split)
        first += speakers_of_split
        part = {name: values[rows] for name, values in whole.items()}
        inputs = {"frames": part["frames"], "length": part["length"]}
        datasets[split] = inputs, {"symbols": part["symbols"], "length": part["spoken"]}
    return datasets


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """Noise on every frame that was spoken."""
    if not task.noise:
        return None

    def augment(batch: tuple[Any, ...], seed: tf.Tensor) -> tuple[Any, ...]:
        inputs, labels, weights = batch
        frames, length = inputs["frames"], inputs["length"]
        noise = tf.random.stateless_normal(frames.shape, seed, stddev=task.noise)
        spoken = tf.sequence_mask(length, FRAMES, frames.dtype)[..., tf.newaxis]
        noisy = frames + tf.cast(noise, frames.dtype) * spoken
        return {"frames": noisy, "length": length}, labels, weights

    return augment


def _speak(rng: np.random.Generator, sounds: np.ndarray, number: int) -> dict[str, np.ndarray]:
    """Utterances of one speaker, who has a channel and a loudness."""
    channel, loudness = rng.normal(0, 0.8, FEATURES), rng.uniform(0.7, 1.3)
    frames = np.zeros((number, FRAMES, FEATURES), "float32")
    symbols = np.zeros((number, SYMBOLS), "int32")
    length, spoken = np.zeros(number, "int32"), rng.integers(3, SYMBOLS + 1, number, "int32")
    for i in range(number):
        transcript = rng.integers(1, len(ALPHABET) + 1, spoken[i])
        for j in range(1, spoken[i]):
            if rng.random() < 0.2:  # double letters
                transcript[j] = transcript[j - 1]
        parts = []
        for symbol in transcript:
            pause = np.zeros((rng.integers(1, 3), FEATURES))
            parts += [pause, np.tile(sounds[symbol - 1], (rng.integers(3, 5), 1))]
        sound = np.concatenate(parts)
        sound = loudness * sound + channel + rng.normal(0, 0.7, sound.shape)
        length[i] = len(sound)
        frames[i, : length[i]], symbols[i, : spoken[i]] = sound, transcript
    return {"frames": frames, "length": length, "symbols": symbols, "spoken": spoken}
''',
    model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import ALPHABET, FEATURES, FRAMES

WIDTH = 48


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: each utterance is normalized by itself."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Frames and their number -> logits (batch, FRAMES, 1 + symbols), of which 0 is the blank.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, ops = keras.layers, keras.ops
    frames = keras.Input((FRAMES, FEATURES), name="frames")
    length = keras.Input((), dtype="int32", name="length")
    spoken = ops.expand_dims(length, 1) > np.arange(FRAMES, dtype="int32")
    mask = ops.expand_dims(ops.cast(spoken, frames.dtype), 2)  # (batch, FRAMES, 1)
    # Cepstral mean normalization: takes away the channel of the speaker.
    number = ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1)
    mean = ops.sum(frames * mask, axis=1, keepdims=True) / number
    x = (frames - mean) * mask
    for _ in range(3):
        x = layers.Conv1D(WIDTH, 5, padding="same")(x)
        x = layers.LayerNormalization()(x)
        x = layers.Activation("relu")(x)
        x = layers.Dropout(task.dropout)(x) * mask  # so that padding changes nothing
    logits = layers.Dense(1 + len(ALPHABET), dtype=keras.config.floatx(), name="logits")(x)
    return keras.Model({"frames": frames, "length": length}, logits)
''',
    losses='''
"""The loss, and the number that it is divided by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig

BLANK = 0


def ctc(
    labels: dict[str, tf.Tensor], logits: tf.Tensor, number_of_frames: tf.Tensor
) -> tf.Tensor:
    """Minus the log-likelihood of each transcript over all its alignments, float (batch,)."""
    return tf.nn.ctc_loss(
        labels=labels["symbols"],
        logits=logits,
        label_length=labels["length"],
        logit_length=number_of_frames,
        logits_time_major=False,
        blank_index=BLANK,
    )


def create_losses(task: TaskConfig) -> dict[str, Callable[..., tf.Tensor]]:
    """Losses by name; they give one number per utterance."""
    return {"main": ctc}

'''
    + "\n"
    + blank.COUNT
    + blank.COMPUTE_LOSS,
    metrics='''
"""The metrics, and the decoder."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig
from .losses import BLANK


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """Edits per symbol of all transcripts together, and the fraction of transcripts without any."""
    return {"symbol_error_rate": keras.metrics.Mean(), "exact": keras.metrics.Mean()}


def decode(logits: tf.Tensor, number_of_frames: tf.Tensor) -> tf.SparseTensor:
    """The symbols of the best path, int64 (batch, any number)."""
    (symbols,), _ = tf.nn.ctc_greedy_decoder(
        tf.transpose(logits, [1, 0, 2]), number_of_frames, merge_repeated=True, blank_index=BLANK
    )
    return symbols


def edits(
    labels: dict[str, tf.Tensor], logits: tf.Tensor, number_of_frames: tf.Tensor
) -> tf.Tensor:
    """Insertions, deletions and substitutions in each utterance, float (batch,)."""
    transcripts = tf.sparse.from_dense(tf.cast(labels["symbols"], tf.int64))  # without padding
    found = tf.edit_distance(decode(logits, number_of_frames), transcripts, normalize=False)
    return tf.ensure_shape(found, labels["length"].shape)


def update_metrics(
    metrics: dict[str, keras.metrics.Metric],
    edits: tf.Tensor,
    symbols: tf.Tensor,
    weights: tf.Tensor,
) -> None:
    """Count what was decoded.

    Args:
        metrics: those of `create_metrics`.
        edits: of each utterance.
        symbols: in each transcript.
        weights: of each utterance.
    """
    symbols = tf.cast(symbols, edits.dtype)
    # Weighted by symbols, so that it is all edits divided by all symbols.
    metrics["symbol_error_rate"].update_state(edits / symbols, weights * symbols)
    metrics["exact"].update_state(tf.cast(edits == 0, weights.dtype), weights)
''',
    optimizer=blank.OPTIMIZER_FILE,
    callbacks=blank.CALLBACKS,
    pictures=blank.PICTURES,
    predictions='''
"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .data import ALPHABET
from .metrics import decode

READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """The transcript of each utterance."""
    number_of_frames = tf.cast(inputs["length"], tf.int32)
    decoded = tf.sparse.to_dense(decode(tf.convert_to_tensor(outputs), number_of_frames)).numpy()
    texts = ["".join(ALPHABET[symbol - 1] for symbol in row if symbol) for row in decoded]
    return {"transcript": np.array(texts)}
''',
    steps='''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
from .metrics import edits, update_metrics

Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]  # inputs, labels, weights


def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    inputs, labels, weights = batch
    logits = run.model(inputs, training=training)  # (batch, frames, 1 + symbols)
    per_example = run.losses["main"](labels, logits, inputs["length"])  # (batch,)
    found = edits(labels, logits, inputs["length"])
    update_metrics(run.metrics, found, labels["length"], weights)
    return {"main": compute_loss(per_example, weights, run.model, replica)}


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
)

# ------------------------------------------------------------------------------------------------
# Diffusion: denoising of waveforms of several classes, classifier-free guidance, averaged weights.

DIFFUSION = whole(
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """A diffusion model of waveforms, given their class."""

    learning_rate: float = 3e-3  # learning rate at the start; decays to 0 along a cosine
    unconditional: float = 0.1  # fraction of training examples whose class is hidden, for guidance
    guidance: float = 1.0  # how much more than the class asks for is done when sampling
    average_decay: float = 0.98  # of the moving average of the weights, in a step
    monitor: str = "validation_loss"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("unconditional", "average_decay"):
            if not 0 <= getattr(self, name) < 1:
                flag = name.replace("_", "-")
                raise ValueError(
                    f"--{flag} is {getattr(self, name)}; it must be at least 0 and less than 1."
                )
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
    data='''
"""Waveforms, clean and with noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

CLASSES = ("sine", "square", "sawtooth")
LENGTH = 24
EARLIEST, LATEST = 0.02, 0.98  # times: at 0 there is no noise, at 1 nothing else
NUMBERS = {"train": 1920, "validation": 500, "test": 500}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Waveforms of each split.

    Inputs: "noisy" float32 (n, LENGTH), "time" float32 (n, 1), "class" int32 (n,).
    Labels: "clean" and "noise", float32 (n, LENGTH), of which "noisy" was made.

    Validation and test use this noise, so that they measure the same in every epoch; training draws
    its own.
    """
    rng = np.random.default_rng(2048)
    return {split: _examples(rng, number) for split, number in NUMBERS.items()}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: the train step draws noise."""
    return None


def _examples(rng: np.random.Generator, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    classes = rng.integers(len(CLASSES), size=number)
    phase = rng.integers(1, 3, (number, 1)) * np.arange(LENGTH) / LENGTH + rng.random((number, 1))
    phase %= 1
    waves = [np.sqrt(2) * np.sin(2 * np.pi * phase), np.sign(phase - 0.5), 3.4 * (phase - 0.5)]
    clean = np.stack(waves)[classes, np.arange(number)]  # of variance 1
    clean = 0.95 * clean + 0.1 * rng.normal(size=clean.shape)
    time = rng.uniform(EARLIEST, LATEST, (number, 1))
    noise = rng.normal(size=clean.shape)
    noisy = np.cos(np.pi / 2 * time) * clean + np.sin(np.pi / 2 * time) * noise
    inputs = {"noisy": noisy, "time": time, "class": classes}
    dtypes = {"noisy": "float32", "time": "float32", "class": "int32"}
    return (
        {name: values.astype(dtypes[name]) for name, values in inputs.items()},
        {"clean": clean.astype("float32"), "noise": noise.astype("float32")},
    )
''',
    model='''
"""The model, and the moving average of its weights."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import CLASSES, LENGTH

HIDDEN = len(CLASSES)  # the class of an example whose class isn't told
WIDTH, BLOCKS = 128, 3


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: waveforms have variance 1."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Noisy waveforms, times and classes -> the noise (batch, LENGTH).

    "denoiser" trains; "average" has the moving average of its weights: evaluate and sample by that.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers, ops = keras.layers, keras.ops
    inputs = {
        "noisy": keras.Input((LENGTH,), name="noisy"),
        "time": keras.Input((1,), name="time"),
        "class": keras.Input((), dtype="int32", name="class"),
    }
    angles = inputs["time"] * (np.pi / 2 * 2.0 ** np.arange(4)).astype("float32")
    known = layers.Embedding(len(CLASSES) + 1, 16, name="classes")(inputs["class"])
    condition = layers.Concatenate()([ops.sin(angles), ops.cos(angles), known])
    condition = layers.Dense(WIDTH, activation="swish")(condition)
    x = layers.Dense(WIDTH)(inputs["noisy"])
    for _ in range(BLOCKS):
        h = layers.LayerNormalization()(x) + layers.Dense(WIDTH)(condition)
        h = layers.Dense(WIDTH, activation="swish")(h)
        x = x + layers.Dense(WIDTH)(h)
    noise = layers.Dense(LENGTH, dtype=keras.config.floatx(), name="noise")(x)
    denoiser = keras.Model(inputs, noise)
    average = keras.models.clone_model(denoiser)
    average.set_weights(denoiser.get_weights())
    average.trainable = False
    return {"denoiser": denoiser, "average": average}
''',
    losses='''
"""The loss, and the number that it is divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name: (labels, predictions) -> one number per example."""
    return {"main": keras.losses.MeanSquaredError(reduction="none")}

'''
    + "\n"
    + blank.COUNT
    + blank.COMPUTE_LOSS,
    metrics='''
"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig

BANDS = {"low_noise": (0.0, 0.4), "high_noise": (0.4, 1.0)}  # of times


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The squared error of the noise, by how much of it there is; 1 is chance."""
    return {f"error_{band}": keras.metrics.Mean() for band in BANDS}


def update_metrics(
    metrics: dict[str, keras.metrics.Metric],
    per_example: tf.Tensor,
    time: tf.Tensor,
    weights: tf.Tensor,
) -> None:
    """Add the errors of some examples, each to its band.

    Args:
        metrics: those of `create_metrics`.
        per_example: errors (batch,).
        time: (batch, 1).
        weights: (batch,).
    """
    for band, (first, last) in BANDS.items():
        inside = (time[:, 0] >= first) & (time[:, 0] < last)
        own = weights * tf.cast(inside, weights.dtype)
        metrics[f"error_{band}"].update_state(per_example, own)
''',
    optimizer=blank.OPTIMIZER_FILE,
    callbacks=blank.CALLBACKS,
    pictures='''
"""Pictures of training examples and of what is sampled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..engine.batches import first_examples
from ..engine.pictures import save
from ..engine.types import Run
from .data import CLASSES
from .predictions import sample

SHOWN = 6  # waveforms of each class


def draw_samples(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw some clean waveforms of each class."""
    inputs, labels, *_ = first_examples(datasets["train"], 20 * SHOWN)
    _draw([labels["clean"][inputs["class"] == c][:SHOWN] for c in range(len(CLASSES))], file)


def draw_predictions(run: Run, datasets: dict[str, Any], file: Path) -> None:
    """Draw new waveforms of each class."""
    classes = np.repeat(np.arange(len(CLASSES), dtype="int32"), SHOWN)
    waves = sample(run.models["average"], classes, run.task.guidance, seed=run.seed)
    _draw(np.split(waves, len(CLASSES)), file)


def _draw(waves: Any, file: Path) -> None:
    figure = Figure(figsize=(9, 3), layout="constrained")
    for axes, name, some in zip(figure.subplots(1, len(CLASSES)), CLASSES, waves, strict=True):
        axes.set_title(name)
        axes.plot(some.T)
    save(figure, file)
''',
    predictions='''
"""What `predict` writes of each prediction; sampling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .data import EARLIEST, LATEST, LENGTH
from .model import HIDDEN

READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def estimate(noisy: np.ndarray, noise: np.ndarray, time: Any) -> np.ndarray:
    """The clean waveforms of which `noisy` is made at `time`, if it has this `noise`."""
    return (noisy - np.sin(np.pi / 2 * time) * noise) / np.cos(np.pi / 2 * time)


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """The waveform without its noise."""
    inputs = tf.nest.map_structure(np.asarray, inputs)
    return {"clean": estimate(inputs["noisy"], np.asarray(outputs), inputs["time"])}


def sample(
    model: keras.Model, classes: np.ndarray, guidance: float, *, seed: int, steps: int = 40
) -> np.ndarray:
    """New waveforms (n, LENGTH) of these classes, by DDIM with classifier-free guidance."""
    number = len(classes)
    x = np.random.default_rng(seed).normal(size=(number, LENGTH)).astype("float32")
    times = np.linspace(LATEST, EARLIEST, steps + 1)
    for now, following in zip(times[:-1], times[1:], strict=True):
        given = {"noisy": x, "time": np.full((number, 1), now, "float32")}
        told = np.asarray(model(given | {"class": classes}, training=False))
        untold = np.asarray(model(given | {"class": np.full_like(classes, HIDDEN)}, training=False))
        noise = told + guidance * (told - untold)
        clean = estimate(x, noise, now)
        x = np.cos(np.pi / 2 * following) * clean + np.sin(np.pi / 2 * following) * noise
        x = x.astype("float32")
    return clean
''',
    steps='''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from ..engine.types import Replica, Run
from .data import EARLIEST, LATEST
from .losses import compute_loss
from .metrics import update_metrics
from .model import HIDDEN

Batch = tuple[dict[str, tf.Tensor], dict[str, tf.Tensor], tf.Tensor]  # inputs, labels, weights


def add_noise(clean: tf.Tensor, noise: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """The forward process, which keeps the variance."""
    return tf.cos(np.pi / 2 * time) * clean + tf.sin(np.pi / 2 * time) * noise


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss, with noise of its own."""
    inputs, labels, weights = batch
    clean = labels["clean"]
    examples, dtype = clean.shape[0], clean.dtype
    seeds = tf.random.split(replica.seed, 3)
    time = tf.random.stateless_uniform((examples, 1), seeds[0], EARLIEST, LATEST, dtype)
    noise = tf.random.stateless_normal(clean.shape, seeds[1], dtype=dtype)
    is_hidden = tf.random.stateless_uniform((examples,), seeds[2]) < run.task.unconditional
    given = {
        "noisy": add_noise(clean, noise, time),
        "time": time,
        "class": tf.where(is_hidden, HIDDEN, inputs["class"]),
    }
    predicted = run.models["denoiser"](given, training=True)
    per_example = run.losses["main"](noise, predicted)  # (batch,)
    update_metrics(run.metrics, per_example, time, weights)
    _move_average(run, replica)
    return {"main": compute_loss(per_example, weights, run.models["denoiser"], replica)}


def _move_average(run: Run, replica: Replica) -> None:
    """Move the average towards the weights before this step, by an equal part in each micro-batch."""
    decay = run.task.average_decay ** (1 / replica.num_microbatches)
    weights = run.models["denoiser"].weights
    for mean, weight in zip(run.models["average"].weights, weights, strict=True):
        mean.assign(decay * tf.convert_to_tensor(mean) + (1 - decay) * tf.convert_to_tensor(weight))


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss, with the noise of the data."""
    inputs, labels, weights = batch
    predicted = run.models["average"](inputs, training=False)
    per_example = run.losses["main"](labels["noise"], predicted)  # (batch,)
    update_metrics(run.metrics, per_example, inputs["time"], weights)
    return {"main": compute_loss(per_example, weights, run.models["average"], replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
)

# ------------------------------------------------------------------------------------------------
# Physics: a physics-informed network that finds the diffusivity of a rod from noisy readings.

PHYSICS = whole(
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """The temperature and the diffusivity of a rod, by a physics-informed network."""

    learning_rate: float = 1e-2  # learning rate at the start; halves on plateaus
    patience: int = 5  # validations without progress before it halves
    residual_weight: float = 0.3  # of the heat equation in the loss
    boundary_weight: float = 1.0  # of the ends of the rod in the loss
    # column of history.csv that selects the best weights
    monitor: str = "validation_temperature_error"
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        for name in ("residual_weight", "boundary_weight"):
            if not getattr(self, name) >= 0:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} is {getattr(self, name)}; it must be at least 0.")
        if self.patience < 1:
            raise ValueError(f"--patience is {self.patience}; it must be at least 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
    data='''
"""Points of a rod that cools, at both ends held at 0 degrees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

LENGTH, DURATION = 2.0, 1.5  # meters, seconds
DIFFUSIVITY = 0.3  # square meters per second: what is to be found; makes the data only
AMPLITUDES = (1.0, -0.6)  # of the modes at the start, in degrees
NOISE = 0.05  # of a reading, in degrees
READING, RESIDUAL, BOUNDARY = range(3)  # what a point is there for
NUMBERS = {  # of points of each kind
    "train": (600, 1000, 320),
    "validation": (200, 200, 50),
    "test": (400, 400, 100),
}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Points of each split: inputs float32 (n, 2), position in meters and time in seconds.

    Labels: "kind" int32 (n,), and "temperature" float32 (n,), of readings and ends of the rod only;
    0 at the points where the heat equation is asked for. Readings of the test are without noise.
    """
    rng = np.random.default_rng(17)
    return {split: _points(rng, *NUMBERS[split], noise=NOISE * (split != "test")) for split in NUMBERS}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None: points stay where they are."""
    return None


def solution(points: np.ndarray) -> np.ndarray:
    """The temperature at points (n, 2): the heat equation, solved."""
    position, time = points.T
    total = np.zeros(len(points))
    for mode, amplitude in enumerate(AMPLITUDES, start=1):
        wave = np.pi * mode / LENGTH
        total += amplitude * np.exp(-DIFFUSIVITY * wave**2 * time) * np.sin(wave * position)
    return total


def _points(
    rng: np.random.Generator, readings: int, residuals: int, boundaries: int, *, noise: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    kind = np.repeat([READING, RESIDUAL, BOUNDARY], [readings, residuals, boundaries])
    points = rng.random((len(kind), 2)) * [LENGTH, DURATION]
    is_end = kind == BOUNDARY
    points[is_end, 0] = rng.choice([0, LENGTH], boundaries)
    temperature = np.where(kind == READING, solution(points), 0)
    temperature += np.where(kind == READING, rng.normal(0, noise, len(kind)), 0)
    order = rng.permutation(len(kind))
    return points[order].astype("float32"), {
        "kind": kind[order].astype("int32"),
        "temperature": temperature[order].astype("float32"),
    }
''',
    model='''
"""The model."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig

FIRST_GUESS = 0.15  # of the diffusivity


@keras.saving.register_keras_serializable("my_experiment")
class Diffusivity(keras.layers.Layer):
    """A positive number that is learned, given for each point."""

    def build(self, input_shape: Any) -> None:
        """Make its logarithm."""
        start = keras.initializers.Constant(np.log(FIRST_GUESS))
        self.logarithm = self.add_weight(name="logarithm", shape=(), initializer=start)

    def call(self, points: Any) -> Any:
        """The same number for each point, (batch,)."""
        return keras.ops.exp(self.logarithm) * keras.ops.ones_like(points[:, 0])


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Where training points are, to normalize coordinates inside the model."""
    points, _ = datasets["train"]
    return {"mean": points.mean(axis=0), "variance": points.var(axis=0)}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> keras.Model:
    """Points (batch, 2) -> "temperature" and "diffusivity", each (batch,).

    Normalization is a layer, so derivatives by the inputs are by meters and seconds.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    points = keras.Input((2,), name="points")
    x = layers.Normalization(mean=adapted["mean"], variance=adapted["variance"])(points)
    for _ in range(3):
        x = layers.Dense(32, activation="tanh")(x)  # smooth: it is differentiated twice
    temperature = layers.Dense(1, dtype=keras.config.floatx(), name="temperature")(x)
    outputs = {
        "temperature": layers.Reshape(())(temperature),
        "diffusivity": Diffusivity(name="diffusivity")(points),
    }
    return keras.Model(points, outputs)
''',
    losses='''
"""The losses, and the numbers that they are divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig
from .data import BOUNDARY, READING, RESIDUAL

KINDS = {"reading": READING, "residual": RESIDUAL, "boundary": BOUNDARY}


def create_losses(task: TaskConfig) -> dict[str, Any]:
    """Squared errors of each kind of point, (batch,) and (batch,) -> (batch,)."""
    return dict.fromkeys(KINDS, tf.math.squared_difference)


def weights_of_kinds(batch: Any) -> dict[str, tf.Tensor]:
    """The weight of each point in each part of the loss, float (batch,)."""
    _, labels, weights = batch
    return {name: weights * tf.cast(labels["kind"] == k, weights.dtype) for name, k in KINDS.items()}


def count(batch: Any) -> dict[str, tf.Tensor]:
    """How many points of each kind count, int32 scalars."""
    weights = weights_of_kinds(batch)
    return {name: tf.math.count_nonzero(weights[name], dtype=tf.int32) for name in KINDS}


def compute_loss(
    per_example: tf.Tensor, weights: tf.Tensor, model: keras.Model, replica: Replica, kind: str
) -> tf.Tensor:
    """This replica's part of one part of the loss; the sum over all replicas is that part.

    Args:
        per_example: float (batch,).
        weights: float (batch,), 0 for padding and for points of other kinds.
        model: what has no regularization.
        replica: `replica.global_count` is `count` summed over all replicas.
        kind: which part.
    """
    return tf.nn.compute_average_loss(
        per_example, sample_weight=weights, global_batch_size=replica.global_count[kind]
    )
''',
    metrics='''
"""The metrics."""

from __future__ import annotations

import keras

from .config import TaskConfig


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """The error of the temperature where it was read, in degrees, and what was found."""
    return {
        "temperature_error": keras.metrics.RootMeanSquaredError(),
        "diffusivity": keras.metrics.Mean(),
    }
''',
    optimizer='''
"""The optimizer, and what happens to the gradients before it applies them."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig


def create_optimizer(task: TaskConfig, steps: int) -> keras.optimizers.Optimizer:
    """Adam; a callback lowers its learning rate.

    Args:
        task: the flags of the task.
        steps: train steps in the whole run, for schedules.
    """
    return keras.optimizers.Adam(task.learning_rate)


def process_gradients(
    gradients: list[tf.Tensor], variables: list[keras.Variable]
) -> list[tf.Tensor]:
    """One gradient for each of `variables`, the same on every replica."""
    return gradients
''',
    callbacks='''
"""Functions that are called during training."""

from __future__ import annotations

import keras

from ..engine.callbacks import Callback
from ..engine.keras_callbacks import keras_callback
from .config import TaskConfig


def create_callbacks(task: TaskConfig) -> list[Callback]:
    """Halve the learning rate when the validation loss no longer falls."""
    plateau = keras.callbacks.ReduceLROnPlateau(
        monitor="val_loss", mode="min", factor=0.5, patience=task.patience, min_lr=1e-4
    )
    return [keras_callback(plateau)]
''',
    pictures=blank.PICTURES,
    predictions='''
"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """The temperature at each point."""
    points = np.asarray(inputs)
    return {
        "position": points[:, 0],
        "time": points[:, 1],
        "temperature": np.asarray(outputs["temperature"]),
    }
''',
    steps='''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import KINDS, compute_loss, weights_of_kinds

Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # points (batch, 2), labels, weights


def differentiate(
    run: Run, points: tf.Tensor, *, training: bool
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """The outputs of the model, and the residual of the heat equation: 0 where it holds."""
    with tf.GradientTape() as second:
        second.watch(points)
        with tf.GradientTape() as first:
            first.watch(points)
            outputs = run.model(points, training=training)
        # Of the sum over the batch: no point depends on another.
        slopes = first.gradient(outputs["temperature"], points)  # (batch, 2)
        u_x, u_t = slopes[:, 0], slopes[:, 1]
    u_xx = second.gradient(u_x, points)[:, 0]
    return outputs, u_t - outputs["diffusivity"] * u_xx


def _step(run: Run, batch: Any, replica: Replica, *, training: bool) -> dict[str, tf.Tensor]:
    points, labels, weights = batch
    outputs, residual = differentiate(run, points, training=training)
    temperature = outputs["temperature"]
    compared = {
        "reading": (labels["temperature"], temperature),
        "residual": (tf.zeros_like(residual), residual),
        "boundary": (labels["temperature"], temperature),
    }
    weights_of = weights_of_kinds(batch)
    terms = {}
    for kind in KINDS:
        per_example = run.losses[kind](*compared[kind])  # (batch,)
        terms[kind] = compute_loss(per_example, weights_of[kind], run.model, replica, kind)
    run.metrics["temperature_error"].update_state(
        labels["temperature"], temperature, weights_of["reading"]
    )
    run.metrics["diffusivity"].update_state(outputs["diffusivity"], weights)
    total = terms["reading"] + run.task.residual_weight * terms["residual"]
    return {"main": total + run.task.boundary_weight * terms["boundary"], **terms}


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    return _step(run, batch, replica, training=True)


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    return _step(run, batch, replica, training=False)


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return _step(run, batch, replica, training=False)


TRAIN_STEPS = (train_step,)
TERMS = tuple(KINDS)  # each part of the loss is reported too
EXAMPLES_INTERACT = False
''',
)

# ------------------------------------------------------------------------------------------------
# Control: offline Q-learning from logged episodes of a random policy.

CONTROL = whole(
    config='''
"""The flags of the task. Imports no TensorFlow, so that a wrong flag is reported at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskConfig:
    """Offline double Q-learning from logged episodes."""

    learning_rate: float = 3e-3  # learning rate at the start; decays to 0 along a cosine
    discount: float = 0.9  # of a reward a step later
    target_period: int = 20  # steps after which the target network becomes the online one
    monitor: str = "validation_regret"  # column of history.csv that selects the best weights
    larger_is_better: bool = False  # whether larger values of --monitor are better

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: a value is out of range; the message names its flag.
        """
        if not 0 <= self.discount < 1:
            raise ValueError(
                f"--discount is {self.discount}; it must be at least 0 and less than 1."
            )
        if self.target_period < 1:
            raise ValueError(f"--target-period is {self.target_period}; it must be at least 1.")
        if not self.learning_rate > 0:
            raise ValueError(f"--learning-rate is {self.learning_rate}; it must be more than 0.")
''',
    data='''
"""Logged transitions of a robot in a room with traps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .config import TaskConfig

SIDE = 6  # of the room, in cells; a state is a cell
GOAL, TRAPS = 35, (8, 15, 22, 29)
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
SLIP = 0.15  # how often a move goes in a random direction
COST = 0.02  # of a step
FEATURES, NOISE = 10, 0.05  # of an observation
HORIZON = 10  # steps after which the log of an episode stops, though the robot could go on
EPISODES = {"train": 260, "validation": 60, "test": 60}


def create_datasets(task: TaskConfig) -> dict[str, Any]:
    """Transitions of each split, by episode: observations float32 (n, FEATURES).

    Labels: "action" int32 (n,), "reward" float32 (n,), "next" observations float32 (n, FEATURES),
    "terminal" float32 (n,), and for evaluation only "best", float32 (n, actions): the true values
    of the actions under the best policy.
    """
    rng = np.random.default_rng(3)
    camera = rng.normal(size=(SIDE**2, FEATURES))  # the observation of each state
    best = solve(task.discount)
    return {split: _log(rng, camera, best, number) for split, number in EPISODES.items()}


def create_augment(task: TaskConfig) -> Callable[..., Any] | None:
    """None."""
    return None


def move(state: int, direction: int) -> int:
    """The cell that is reached; walls stop the robot."""
    row, column = np.add(divmod(state, SIDE), MOVES[direction]).clip(0, SIDE - 1)
    return int(row * SIDE + column)


def reward_of(state: int) -> float:
    """What it is worth to reach a state."""
    return (1.0 if state == GOAL else -1.0 if state in TRAPS else 0.0) - COST


def is_terminal(state: int) -> bool:
    """Whether an episode ends there by itself."""
    return state == GOAL or state in TRAPS


def solve(discount: float) -> np.ndarray:
    """True values of the best policy (states, actions), by value iteration."""
    values = np.zeros((SIDE**2, len(MOVES)))
    for _ in range(200):
        reached = np.zeros_like(values)
        for state in range(SIDE**2):
            for direction in range(len(MOVES)):
                then = move(state, direction)
                later = 0.0 if is_terminal(then) else discount * values[then].max()
                reached[state, direction] = reward_of(then) + later
        values = (1 - SLIP) * reached + SLIP * reached.mean(axis=1, keepdims=True)
    return values


def _log(
    rng: np.random.Generator, camera: np.ndarray, best: np.ndarray, episodes: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    def observe(state: int) -> np.ndarray:
        return camera[state] + rng.normal(0, NOISE, FEATURES)

    starts = [state for state in range(SIDE**2) if not is_terminal(state)]
    rows = []
    for _ in range(episodes):
        state = int(rng.choice(starts))
        observation = observe(state)
        for _ in range(HORIZON):
            action = int(rng.integers(len(MOVES)))
            slips = rng.random() < SLIP
            then = move(state, int(rng.integers(len(MOVES))) if slips else action)
            seen = observe(then)
            ends = is_terminal(then)
            rows.append((observation, action, reward_of(then), seen, ends, best[state]))
            state, observation = then, seen
            if ends:
                break
    observations, actions, rewards, following, terminal, values = map(np.array, zip(*rows))
    return observations.astype("float32"), {
        "action": actions.astype("int32"),
        "reward": rewards.astype("float32"),
        "next": following.astype("float32"),
        "terminal": terminal.astype("float32"),
        "best": values.astype("float32"),
    }
''',
    model='''
"""The online network, and the target network."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from .config import TaskConfig
from .data import FEATURES, MOVES


def adapt(task: TaskConfig, datasets: dict[str, Any]) -> dict[str, Any]:
    """Nothing: observations are about normal."""
    return {}


def create_model(task: TaskConfig, adapted: dict[str, np.ndarray]) -> dict[str, keras.Model]:
    """Observations (batch, FEATURES) -> values of the actions (batch, actions).

    "online" trains and acts; "target" is what it was some steps ago.

    Args:
        task: the flags of the task.
        adapted: what `adapt` returned, as arrays.
    """
    layers = keras.layers
    observations = keras.Input((FEATURES,), name="observations")
    x = observations
    for _ in range(2):
        x = layers.Dense(96, activation="relu")(x)
    values = layers.Dense(len(MOVES), dtype=keras.config.floatx(), name="values")(x)
    online = keras.Model(observations, values)
    target = keras.models.clone_model(online)
    target.set_weights(online.get_weights())
    target.trainable = False
    return {"online": online, "target": target}
''',
    losses='''
"""The loss, and the number that it is divided by."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ..engine.types import Replica
from .config import TaskConfig


def create_losses(task: TaskConfig) -> dict[str, keras.losses.Loss]:
    """Losses by name; the column (batch, 1) of both gives one number per example."""
    return {"main": keras.losses.Huber(delta=1.0, reduction="none")}

'''
    + "\n"
    + blank.COUNT
    + blank.COMPUTE_LOSS,
    metrics='''
"""The metrics."""

from __future__ import annotations

import keras
import tensorflow as tf

from .config import TaskConfig

TIE = 1e-3  # actions of which the values differ by less are equally good


def create_metrics(task: TaskConfig) -> dict[str, keras.metrics.Metric]:
    """By the true values: what the greedy policy loses by its next action, and how often it is best.

    "value_error" is the error of the values themselves.
    """
    return {
        "regret": keras.metrics.Mean(),
        "best_action": keras.metrics.Mean(),
        "value_error": keras.metrics.RootMeanSquaredError(),
    }


def update_metrics(
    metrics: dict[str, keras.metrics.Metric], best: tf.Tensor, values: tf.Tensor, weights: tf.Tensor
) -> None:
    """Compare with the truth.

    Args:
        metrics: those of `create_metrics`.
        best: true values (batch, actions).
        values: those of the model (batch, actions).
        weights: (batch,).
    """
    chosen = tf.argmax(values, axis=1)
    lost = tf.reduce_max(best, axis=1) - tf.gather(best, chosen, axis=1, batch_dims=1)
    metrics["regret"].update_state(lost, weights)
    metrics["best_action"].update_state(tf.cast(lost < TIE, weights.dtype), weights)
    metrics["value_error"].update_state(best, values, weights)
''',
    optimizer=blank.OPTIMIZER_FILE,
    callbacks=blank.CALLBACKS,
    pictures=blank.PICTURES,
    predictions='''
"""For `predict`: functions that read input files (besides .npy and .npz), and its output table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

READERS: dict[str, Callable[[Path, keras.Model], Any]] = {}


def describe(model: keras.Model, inputs: Any, outputs: Any) -> dict[str, Any]:
    """The greedy action and its value."""
    values = np.asarray(outputs)
    return {"action": values.argmax(axis=1), "value": values.max(axis=1)}
''',
    steps='''
"""The train, validation and test step, as one replica computes them."""

from __future__ import annotations

import tensorflow as tf

from ..engine.types import Replica, Run
from .losses import compute_loss
from .metrics import update_metrics

Batch = tuple[tf.Tensor, dict[str, tf.Tensor], tf.Tensor]  # observations, labels, weights


def _temporal_difference(
    run: Run, values: tf.Tensor, labels: dict[str, tf.Tensor]
) -> tf.Tensor:
    """The loss of each transition (batch,): double Q-learning."""
    # The online network chooses the next action, the target network says what it is worth.
    following = tf.argmax(run.models["online"](labels["next"], training=False), axis=1)
    worth = run.models["target"](labels["next"], training=False)
    worth = tf.gather(worth, following, axis=1, batch_dims=1)
    goal = labels["reward"] + run.task.discount * (1 - labels["terminal"]) * worth
    taken = tf.gather(values, labels["action"], axis=1, batch_dims=1)
    return run.losses["main"](tf.stop_gradient(goal)[:, tf.newaxis], taken[:, tf.newaxis])


def _move_target(run: Run, replica: Replica) -> None:
    """Make the target network the online one, every so many steps; on every replica alike."""
    is_due = replica.step % run.task.target_period == 0
    for old, new in zip(run.models["target"].weights, run.models["online"].weights, strict=True):
        old.assign(tf.where(is_due, tf.convert_to_tensor(new), tf.convert_to_tensor(old)))


def train_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the training loss."""
    observations, labels, weights = batch
    _move_target(run, replica)
    values = run.models["online"](observations, training=True)  # (batch, actions)
    per_example = _temporal_difference(run, values, labels)
    update_metrics(run.metrics, labels["best"], values, weights)
    return {"main": compute_loss(per_example, weights, run.models["online"], replica)}


def validation_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """This replica's contribution to the validation loss."""
    observations, labels, weights = batch
    values = run.models["online"](observations, training=False)  # (batch, actions)
    per_example = _temporal_difference(run, values, labels)
    update_metrics(run.metrics, labels["best"], values, weights)
    return {"main": compute_loss(per_example, weights, run.models["online"], replica)}


def test_step(run: Run, batch: Batch, replica: Replica) -> dict[str, tf.Tensor]:
    """The same as in validation."""
    return validation_step(run, batch, replica)


TRAIN_STEPS = (train_step,)
TERMS: tuple[str, ...] = ()
EXAMPLES_INTERACT = False
''',
)

TASKS: tuple[Change, ...] = (
    change_of(name="transcription, correct", project="blank", edits=TRANSCRIPTION),
    change_of(name="diffusion, correct", project="blank", edits=DIFFUSION),
    change_of(name="physics, correct", project="blank", edits=PHYSICS),
    change_of(name="control, correct", project="blank", edits=CONTROL),
)


FAULTS: tuple[Fault, ...] = (
    # Transcription
    fault_in(
        name="transcription, decoder takes the last class for the blank",
        project="blank",
        edits=(
            *TRANSCRIPTION,
            Edit("metrics.py", "merge_repeated=True, blank_index=BLANK", "merge_repeated=True"),
        ),
        kind="metrics",
        cause="ctc_greedy_decoder without blank_index takes the last class as the blank, but the "
        "loss trains class 0 as the blank: blanks are decoded as symbols and the last symbol of "
        "the alphabet is dropped, so the symbol error rate and the transcripts are wrong.",
        file="metrics.py",
        named=r"blank|ctc_greedy_decoder|decod|last class|class 0",
    ),
    fault_in(
        name="transcription, utterances of a speaker are in several splits",
        project="blank",
        edits=(
            *TRANSCRIPTION,
            Edit(
                "data.py",
                "speakers = np.repeat(np.arange(number), UTTERANCES)",
                "speakers = rng.permutation(np.repeat(np.arange(number), UTTERANCES))",
            ),
        ),
        kind="leak",
        cause="The speakers of the utterances are permuted apart from the utterances, so the "
        "splits are by utterance: the same speakers are in train, validation and test, though the "
        "task says that no speaker is in two splits.",
        file="data.py",
        named=r"speaker|leak|permut|shuffl|group|overlap|same .* in (both|several|two|train)",
    ),
    fault_in(
        name="transcription, written symbols are the following ones of the alphabet",
        project="blank",
        edits=(
            *TRANSCRIPTION,
            Edit("predictions.py", "ALPHABET[symbol - 1]", "ALPHABET[symbol % len(ALPHABET)]"),
        ),
        kind="prediction",
        cause="describe maps class i to ALPHABET[i], but class 0 is the blank and class i is "
        "ALPHABET[i - 1]: each letter of a predicted transcript is the next one of the alphabet.",
        file="predictions.py",
        named=r"alphabet|off.by.one|shift|index|letter|next symbol|describe|blank|transcript",
    ),
    fault_in(
        name="transcription, learning rate decays within as many steps as there are epochs",
        project="blank",
        edits=(
            *TRANSCRIPTION,
            Edit("optimizer.py", "decay_steps=steps)", "decay_steps=40)  # epochs"),
        ),
        kind="schedule",
        cause="The cosine decays over 40 steps, the number of epochs, instead of the steps of the "
        "run: after the fourth epoch the learning rate is 0 and nothing is learned.",
        file="optimizer.py",
        named=r"decay|schedule|cosine|learning rate|epochs|\b40\b",
    ),
    fault_in(
        name="transcription, doubled letters are merged in the transcripts",
        project="blank",
        edits=(
            *TRANSCRIPTION,
            Edit(
                "data.py",
                "length[i] = len(sound)\n",
                "length[i] = len(sound)\n"
                "        # CTC merges repeated symbols.\n"
                "        transcript = transcript[np.append(True, transcript[1:] != transcript[:-1])]\n"
                "        spoken[i] = len(transcript)\n",
            ),
        ),
        kind="labels",
        cause="Repeated symbols are removed from the transcripts, as if CTC couldn't tell them "
        "apart (a blank between them does): the labels of all splits lack doubled letters that "
        "were spoken, so the model learns to drop them and the error rate doesn't see it.",
        file="data.py",
        named=r"repeat|merg|collaps|doubl|duplicat|consecutive|dedup|label|transcript",
    ),
    fault_in(
        name="transcription, edits are divided by the number of symbols twice",
        project="blank",
        edits=(
            *TRANSCRIPTION,
            Edit("metrics.py", "transcripts, normalize=False)", "transcripts)"),
        ),
        kind="metrics",
        cause="tf.edit_distance normalizes by the length of the transcript if it isn't told not to, "
        "and update_metrics divides by the symbols once more: the symbol error rate is several "
        "times too small.",
        file="metrics.py",
        named=r"normali[sz]|twice|edit.distance|divid|double|length|number of symbols|too (small|low)",
    ),
    # Diffusion
    fault_in(
        name="diffusion, training adds noise that doesn't keep the variance",
        project="blank",
        edits=(
            *DIFFUSION,
            Edit(
                "steps.py",
                "return tf.cos(np.pi / 2 * time) * clean + tf.sin(np.pi / 2 * time) * noise",
                "return (1 - time) * clean + time * noise",
            ),
        ),
        kind="model",
        cause="The forward process of the train step mixes linearly, (1 - t) and t, and the data "
        "of validation and test and the sampler use cosine and sine: the network trains on other "
        "noise levels and variances than it is used with.",
        file="steps.py",
        named=r"varianc|forward|cos|sin|mix|linear|interpol|noise level|add_noise|schedule|mismatch|inconsisten",
    ),
    fault_in(
        name="diffusion, weights are averaged over far more steps than the run has",
        project="blank",
        edits=(
            *DIFFUSION,
            Edit("config.py", "average_decay: float = 0.98", "average_decay: float = 0.9999"),
        ),
        kind="optimizer",
        cause="The moving average forgets within 10,000 steps and the run has 800, so the "
        "averaged model, by which validation, test and sampling go, is nearly the one of the start.",
        file="config.py",
        named=r"decay|averag|ema|moving|0\.9999|too (slow|long)",
    ),
    fault_in(
        name="diffusion, the class is hidden where it should be told",
        project="blank",
        edits=(
            *DIFFUSION,
            Edit(
                "steps.py",
                'tf.where(is_hidden, HIDDEN, inputs["class"])',
                'tf.where(is_hidden, inputs["class"], HIDDEN)',
            ),
        ),
        kind="data",
        cause="The branches of tf.where are swapped: the class is told to a tenth of the training "
        "examples and hidden from the others, so the conditional model hardly trains.",
        file="steps.py",
        named=r"where|hidden|swap|invert|revers|condition|class|dropp|unconditional|guidance|90",
    ),
    fault_in(
        name="diffusion, estimate of the clean wave isn't scaled back",
        project="blank",
        edits=(
            *DIFFUSION,
            Edit(
                "predictions.py",
                "return (noisy - np.sin(np.pi / 2 * time) * noise) / np.cos(np.pi / 2 * time)",
                "return noisy - np.sin(np.pi / 2 * time) * noise",
            ),
        ),
        kind="prediction",
        cause="estimate takes away the noise but doesn't divide by the factor cos that the clean "
        "wave was multiplied by: what predict writes and what the sampler draws is much too small.",
        file="predictions.py",
        named=r"divi|scal|cos|alpha|estimate|small|amplitude|shrink",
    ),
    fault_in(
        name="diffusion, noise is the same on every replica and for every seed",
        project="blank",
        edits=(
            *DIFFUSION,
            Edit(
                "steps.py",
                "seeds = tf.random.split(replica.seed, 3)",
                "step = tf.cast(replica.step, tf.int32)  # a new seed in every step\n"
                "    seeds = tf.random.split(tf.stack([0, step]), 3)",
            ),
        ),
        kind="distribution",
        cause="The seed is made of the step alone, not of replica.seed: all replicas (and "
        "micro-batches) draw the same times and noise, so the global batch has less variety with "
        "each further replica, and --seed doesn't change the noise.",
        file="steps.py",
        named=r"seed|replica|same noise|random|micro.?batch",
    ),
    fault_in(
        name="diffusion, a batch has one noise level",
        project="blank",
        edits=(
            *DIFFUSION,
            Edit(
                "steps.py",
                "time = tf.random.stateless_uniform((examples, 1), seeds[0], EARLIEST, LATEST, dtype)",
                "time = tf.random.stateless_uniform((1, 1), seeds[0], EARLIEST, LATEST, dtype)\n"
                "    time = tf.repeat(time, examples, axis=0)",
            ),
        ),
        kind="randomness",
        cause="One time is drawn for all examples of a replica's batch instead of one each: the "
        "gradients of steps vary a lot, training is worse, and it depends on the number of "
        "replicas.",
        file="steps.py",
        named=r"\btimes?\b|noise level|\(1, 1\)|repeat|per.example|each example|whole batch|same for all|one .* batch|broadcast",
    ),
    # Physics
    fault_in(
        name="physics, activation has no second derivative",
        project="blank",
        edits=(
            *PHYSICS,
            Edit(
                "model.py",
                'activation="tanh")(x)  # smooth: it is differentiated twice',
                'activation="relu")(x)',
            ),
        ),
        kind="model",
        cause="With relu the network is piecewise linear, so u_xx is 0 everywhere: the residual is "
        "u_t alone, the equation isn't asked for, and the diffusivity gets no gradient.",
        file="model.py",
        named=r"relu|activation|piecewise|second derivative|smooth|u_xx|twice|curvature",
    ),
    fault_in(
        name="physics, heat flows backwards in the residual",
        project="blank",
        edits=(
            *PHYSICS,
            Edit(
                "steps.py",
                'return outputs, u_t - outputs["diffusivity"] * u_xx',
                'return outputs, u_t + outputs["diffusivity"] * u_xx',
            ),
        ),
        kind="loss",
        cause="The residual has the wrong sign, u_t + D u_xx: that is the heat equation backwards "
        "in time, which contradicts the readings, so the diffusivity that is found is about 0.",
        file="steps.py",
        named=r"sign|minus|plus|residual|backward|heat equation|u_t|equation",
    ),
    fault_in(
        name="physics, learning rate halves while the loss falls",
        project="blank",
        edits=(*PHYSICS, Edit("callbacks.py", 'mode="min"', 'mode="max"')),
        kind="callbacks",
        cause="ReduceLROnPlateau waits for a larger validation loss (mode max): a loss that falls "
        "is a plateau to it, so the learning rate halves every few epochs to its minimum.",
        file="callbacks.py",
        named=r"mode|max|plateau|learning rate|larger|callback",
    ),
    fault_in(
        name="physics, error of the temperature counts points without a reading",
        project="blank",
        edits=(
            *PHYSICS,
            Edit(
                "steps.py",
                'labels["temperature"], temperature, weights_of["reading"]\n',
                'labels["temperature"], temperature, weights\n',
            ),
        ),
        kind="metrics",
        cause="The temperature error is over all points, also those where the temperature wasn't "
        "read and its label is a mere 0: it is large where the model is right, and selects the "
        "best weights.",
        file="steps.py",
        named=r"temperature.error|metric|weight|reading|kind|residual|collocation|placeholder|label.* 0|points",
    ),
    fault_in(
        name="physics, coordinates are scaled before the model",
        project="blank",
        edits=(
            *PHYSICS,
            Edit(
                "data.py",
                'return points[order].astype("float32"), {',
                "points /= [LENGTH, DURATION]  # to [0, 1]\n"
                '    return points[order].astype("float32"), {',
            ),
        ),
        kind="data",
        cause="The data gives coordinates in [0, 1], so the derivatives in the residual are by "
        "these and not by meters and seconds: without the factors of the chain rule the "
        "diffusivity is wrong by DURATION / LENGTH ** 2 (0.1 instead of 0.3).",
        file="data.py",
        named=r"scal|chain rule|unit|meter|normali[sz]|derivativ|\[0, 1\]|LENGTH|DURATION|coordinat",
    ),
    fault_in(
        name="physics, residual is averaged by each replica",
        project="blank",
        edits=(
            *PHYSICS,
            Edit(
                "losses.py",
                "    return tf.nn.compute_average_loss(\n",
                '    if kind == "residual":  # not every batch has such a point\n'
                "        return tf.math.divide_no_nan(\n"
                "            tf.reduce_sum(per_example * weights), tf.reduce_sum(weights)\n"
                "        )\n"
                "    return tf.nn.compute_average_loss(\n",
            ),
        ),
        kind="distribution",
        cause="The residual is divided by the weights of this replica's own points instead of the "
        "global count: summed over N replicas it counts N times as much as the other parts of the "
        "loss, and is reported N times as large.",
        file="losses.py",
        named=r"replica|global.?count|local|denominator|divid|average|N times|mean",
    ),
    # Control
    fault_in(
        name="control, value goes on after the end of an episode",
        project="blank",
        edits=(
            *CONTROL,
            Edit("steps.py", '(1 - labels["terminal"]) * worth', "worth"),
        ),
        kind="loss",
        cause="The goal of a terminal transition bootstraps from the state after the end, whose "
        "value is never trained: goal and traps get values from nowhere.",
        file="steps.py",
        named=r"terminal|\bdone\b|end of|episode|bootstrap",
    ),
    fault_in(
        name="control, weights with the largest regret are tested",
        project="blank",
        edits=(
            *CONTROL,
            Edit("config.py", "larger_is_better: bool = False", "larger_is_better: bool = True"),
        ),
        kind="evaluation",
        cause="Larger regret counts as better, so the weights that are kept as best and tested are "
        "the worst ones of the run.",
        file="config.py",
        named=r"larger_is_better|larger.is.better|regret|worst|monitor|direction|minimi[sz]|lower",
    ),
    fault_in(
        name="control, episodes are other ones in each process",
        project="blank",
        edits=(
            *CONTROL,
            Edit("data.py", "rng = np.random.default_rng(3)", "rng = np.random.default_rng()"),
        ),
        kind="randomness",
        cause="The generator has no seed: each process makes another room, other episodes and "
        "splits, so runs can't be compared, a resumed or evaluated run sees other data (its test "
        "isn't its test), and several workers train on different data.",
        file="data.py",
        named=r"seed|default_rng|reproduc|random|differ",
    ),
    fault_in(
        name="control, reward is that of the transition before",
        project="blank",
        edits=(
            *CONTROL,
            Edit(
                "data.py",
                '"reward": rewards.astype("float32"),',
                '"reward": np.append(0, rewards[:-1]).astype("float32"),',
            ),
        ),
        kind="labels",
        cause="The rewards are shifted by one row: a transition has the reward of the one before "
        "it, the first of an episode that of the episode before.",
        file="data.py",
        named=r"reward|shift|off.by.one|previous|before|align|append",
    ),
    fault_in(
        name="control, end of the log counts as the end of the episode",
        project="blank",
        edits=(
            *CONTROL,
            Edit("data.py", "for _ in range(HORIZON):", "for step in range(HORIZON):"),
            Edit(
                "data.py",
                "ends = is_terminal(then)\n",
                "ends = is_terminal(then) or step == HORIZON - 1\n",
            ),
        ),
        kind="labels",
        cause="Transitions at the time limit, after which the robot could go on, are marked "
        "terminal: nothing is bootstrapped there and the values of such states are learned as "
        "their next reward alone, too near 0.",
        file="data.py",
        named=r"horizon|time.?limit|truncat|terminal|bootstrap|timeout|log stops",
    ),
    fault_in(
        name="control, target network moves on the first replica only",
        project="blank",
        edits=(
            *CONTROL,
            Edit(
                "steps.py",
                "    is_due = replica.step % run.task.target_period == 0\n",
                "    is_due = replica.step % run.task.target_period == 0\n"
                "    is_due &= replica.index == 0  # once in a step\n",
            ),
        ),
        kind="distribution",
        cause="Only replica 0 copies the online network; each replica keeps a target network of "
        "its own, so on several replicas the others bootstrap from the network of the start "
        "for ever.",
        file="steps.py",
        named=r"replica|index == 0|first replica|chief|target",
    ),
)
