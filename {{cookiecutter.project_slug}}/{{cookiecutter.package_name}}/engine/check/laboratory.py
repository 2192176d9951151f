"""What follows from observing the runs of a task: facts that several relations need."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ..batches import TrainingBatches, on_replicas
from ..distributed_steps import loss_counts
from ..gradients import all_optimizers
from .numbers import (
    TOLERANCE,
    Numbers,
    bytes_of,
    close,
    different,
    named_leaves,
    relative_difference,
)
from .probe import Look, cares_about_training, layers_recorded, name_of
from .runs import Call, Runs

REPEATED_STEPS, FRESH_STEPS = 30, 60
BATCHES_WITH_NAN = 40  # in which NaN is looked for
LOOKS = 5  # at steps with other random numbers
SIGN_BASED = {"Lion", "Muon"}
LARGER_IS_BETTER = ("Accuracy", "Precision", "Recall", "AUC", "F1Score", "FBetaScore", "IoU",
                    "R2Score")  # fmt: skip
SMALLER_IS_BETTER = ("Error", "Crossentropy", "Hinge", "KLDivergence", "Poisson")
MORE = {"accuracy", "recall", "precision", "f1", "auc", "iou", "dice", "r2", "psnr", "ssim", "bleu"}
LESS = {"error", "errors", "perplexity", "mse", "rmse", "mae", "nll", "wer", "cer", "fid",
        "distance"}  # fmt: skip
ADAPTIVE = ("Adam", "AdamW", "Nadam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Lion", "Lamb")
BOUNDS = {"sigmoid": (0, 1), "tanh": (-1, 1)}  # of an activation's values


class Laboratory(Runs):
    """A task under observation, and what is known of it."""

    @contextlib.contextmanager
    def in_float64(self) -> Iterator[Laboratory | None]:
        """The same task in float64; None if it already is."""
        floatx, policy = keras.config.floatx(), keras.config.dtype_policy()
        if floatx == "float64":
            yield None
            return
        keras.config.set_floatx("float64")
        keras.config.set_dtype_policy("float64")
        try:
            yield self._exact
        finally:
            keras.config.set_floatx(floatx)
            keras.config.set_dtype_policy(policy)

    @cached_property
    def _exact(self) -> Laboratory:
        return Laboratory(
            self._create_run,
            self._num_steps,
            self._strategies,
            lambda _: self._all_datasets,
            self._create_callbacks,
            replace(self._config, precision="float64"),
            self._task,
            self.readers,
        )

    @cached_property
    def hashes(self) -> dict[str, list[int]]:
        """A number for each example of each split, without its weights.

        Training examples may be several that the augmentation chooses from.
        """
        found = {}
        others: dict[str, Any] = self.examples.get("validation", self.examples.get("test", {}))
        for split, named in self.examples.items():
            parts = {n: a for n, a in named.items() if not n.startswith("weights")}
            if all(a.ndim > 2 and a.shape[2:] == np.shape(others.get(n, ()))[1:]
                   for n, a in parts.items()):  # fmt: skip
                parts = {n: a.reshape(-1, *a.shape[2:]) for n, a in parts.items()}
            arrays = [a.reshape(len(a), -1) for a in parts.values() if len(a)]
            flat = [np.ascontiguousarray(a) for a in arrays]
            rows = range(len(flat[0]) if flat else 0)
            found[split] = [hash(b"".join(bytes_of(a[i]) for a in flat)) for i in rows]
        return found

    # The batch.

    @property
    def batches(self) -> TrainingBatches:
        """The training data in the order of the steps."""
        return self.one[2]

    @cached_property
    def plain_batch(self) -> Any:
        """The first batch before it is augmented: a nest of (rows, ...)."""
        batches = self.batches
        plain = TrainingBatches(
            batches.split, batches.layout, seed=batches.seed, last_batch=batches.last_batch
        )
        return tf.nest.map_structure(lambda t: t[0], next(iter(plain.dataset(0, 1))))

    @cached_property
    def made_by_augmentation(self) -> dict[str, np.ndarray]:
        """The parts of training examples that the data doesn't have, as a step gets them."""
        first, second = (dict(named_leaves(batch)) for batch in (self.batch, self.second_batch))
        new = [n for n in first if n not in self.examples["train"]]
        return {n: np.concatenate([np.asarray(batch[n][0]) for batch in (first, second)])
                for n in new}  # fmt: skip

    @cached_property
    def evaluation_batch(self) -> Any:
        """The first batch of an evaluation: a nest of (1, rows, ...), weights last."""
        _ = self.evaluations
        return next(iter(next(iter(self.on_one._batches.values()))[0]))

    @cached_property
    def with_zeros(self) -> Any:
        """The first batch; the weights of its second half are 0."""
        half = self.rows // 2
        return self.weighted(lambda w: tf.concat([w[:, :half], 0 * w[:, half:]], axis=1))

    @cached_property
    def with_the_other_half(self) -> Any:
        """The first batch; the weights of its first half are 0."""
        half = self.rows // 2
        return self.weighted(lambda w: tf.concat([0 * w[:, :half], w[:, half:]], axis=1))

    @cached_property
    def with_other_rows(self) -> Any:
        """`with_zeros`, and other examples where the weight is 0."""
        half, later = self.rows // 2, self.second_batch
        *parts, weights = self.with_zeros
        others = [
            tf.nest.map_structure(
                lambda t, other: tf.concat([t[:, :half], other[:, half:]], axis=1), part, other
            )
            for part, other in zip(parts, later, strict=False)
        ]
        return (*others, weights)

    @cached_property
    def look_with_zeros(self) -> Look:
        """The step of `with_zeros`."""
        return self.look(self.with_zeros)

    @cached_property
    def look_with_other_rows(self) -> Look:
        """The step of `with_other_rows`."""
        return self.look(self.with_other_rows)

    @cached_property
    def look_with_weights(self) -> tuple[Look, Look]:
        """The first step with twice the weights, and with three times."""
        two, three = self.weighted(lambda w: 2 * w), self.weighted(lambda w: 3 * w)
        return self.look(two), self.look(three)

    # The loss.

    def count(self, batch: Any) -> int:
        """What counts in a batch: the most that counts for one of the losses and terms."""
        local = on_replicas(batch, self.run.strategy, self.one[1].layout)
        return int(np.max(loss_counts(self.run, self.run.functions.count(local))))

    @cached_property
    def counts_weights(self) -> bool:
        """Whether twice the weights count twice."""
        return self.count(self.weighted(lambda w: 2 * w)) != self.count(self.batch)

    @cached_property
    def has_fractional_weights(self) -> bool:
        """Whether weights of the first batch are other than whole numbers."""
        weights = [np.asarray(w, "f8") for w in tf.nest.flatten(self.batch[-1])]
        return any(not np.array_equal(w, np.round(w)) for w in weights)

    @cached_property
    def counts(self) -> Any:
        """What `count` gives for the first batch."""
        local = on_replicas(self.batch, self.run.strategy, self.one[1].layout)
        return self.run.functions.count(local)

    @property
    def has_other_denominators(self) -> bool:
        """Whether losses are divided by anything else than one count."""
        return self.one[1].constant_denominator or isinstance(self.counts, dict)

    @property
    def has_parts(self) -> bool:
        """Whether parts of a loss may have counts of their own, of which batches weigh by one."""
        return isinstance(self.counts, dict) and len(self.counts) > 1

    @cached_property
    def means_of_halves(self) -> dict[str, tuple[float, float]]:
        """For each loss the mean of its halves, and their sum with regularization once."""
        a, b = self.look_with_zeros, self.look(self.with_the_other_half)
        total = max(1, a.counted + b.counted)
        return {
            name: (
                (a.counted * a.losses[name] + b.counted * b.losses[name]) / total,
                a.losses[name] + b.losses[name] - self.regularization(name),
            )
            for name in self.base.losses
        }

    @cached_property
    def trains_what_does_not_count(self) -> int:
        """How many rows of the first batch don't count, and change a loss by their labels."""
        if len(self.batch) != 3 or self.has_other_denominators or self.declared_interacting:
            return 0
        inputs, labels, weights = self.batch
        flat = [np.asarray(w[0]).reshape(self.rows, -1) for w in tf.nest.flatten(weights)]
        there = np.concatenate(flat, axis=1).any(axis=1)
        if there.sum() <= self.base.counted:
            return 0

        def counts(row: int) -> int:
            return self.count(self.weighted(
                lambda w: tf.concat([0 * w[:, :row], w[:, row : row + 1], 0 * w[:, row + 1 :]], 1)
            ))  # fmt: skip

        idle = [row for row in np.flatnonzero(there).tolist() if not counts(row)]
        order = np.arange(self.rows)
        order[idle] = np.roll(idle, 1)
        turned = tf.nest.map_structure(lambda t: tf.gather(t, order, axis=1), labels)
        other = self.look((inputs, turned, weights))
        same_count = other.counted == self.base.counted
        return len(idle) if same_count and different(self.base.losses, other.losses) else 0

    @cached_property
    def look_at_nan(self) -> Look | None:
        """The step of the first batch with NaN in it; None if the first few have none."""
        for step, batch in enumerate(self.batches.dataset(0, BATCHES_WITH_NAN)):
            floats = [t for t in tf.nest.flatten(batch) if t.dtype.is_floating]
            if any(np.isnan(t).any() for t in floats):
                return self.look(batch, step=step)
        return None

    @cached_property
    def interacts(self) -> bool:
        """Whether a loss is neither the mean nor the sum of its halves."""
        if self.rows < 4 or self.has_other_denominators or self.counts_weights:
            return False
        if self.count(self.with_zeros) + self.count(self.with_the_other_half) != self.base.counted:
            return False
        return any(
            not any(close(half, self.base.losses[name], 10 * TOLERANCE) for half in halves)
            for name, halves in self.means_of_halves.items()
        )

    @cached_property
    def sees_rows_of_weight_zero(self) -> bool:
        """Whether what a row of weight zero holds changes a loss."""
        first, other = self.look_with_zeros, self.look_with_other_rows
        return bool(different(first.losses, other.losses))

    def ignores_weights(self, name: str) -> bool:
        """Whether a loss is that of all rows, whatever their weights and what it is divided by."""
        some = self.look_with_zeros
        share = some.counted / max(1, self.base.counted)
        return any(close(f * some.losses[name], self.base.losses[name]) for f in (1.0, share))

    def loss_over_mean(self, batch: Any) -> float | None:
        """The loss over the weighted mean of its examples' losses; None if that isn't one number.

        Both without regularization.
        """
        made, weights = self.look(batch), tf.nest.flatten(batch[-1])
        if len(made.calls) != 1 or len(made.losses) != 1 or len(weights) != 1:
            return None
        ((_, _, values),), ((name, loss),) = made.calls.values(), made.losses.items()
        weight = np.asarray(weights[0][0], "f8")
        if values.shape != weight.shape or made.counted != np.count_nonzero(weight):
            return None
        mean = float(np.sum(values * weight)) / made.counted
        return (loss - self.regularization(name)) / mean if abs(mean) > TOLERANCE else None

    @property
    def declared_interacting(self) -> bool:
        """Whether the task says that its examples interact."""
        return self.run.functions.examples_interact

    def regularization(self, optimizer: str) -> float:
        """The sum of the regularizers of the models that an optimizer trains; 0 for a term."""
        if optimizer not in self.run.optimizers:
            return 0.0
        return sum(
            float(v.regularizer(tf.constant(self.initial[id(v)])))
            for v in self.run.variables_of(optimizer)
            if v.regularizer is not None
        )

    @cached_property
    def total_regularization(self) -> float:
        """The sum of all regularizers."""
        return sum(self.regularization(name) for name in self.run.optimizers)

    # The models.

    @cached_property
    def own_layers(self) -> list[keras.layers.Layer]:
        """Layers of one's own that do something else while training."""
        layers = filter(cares_about_training, self.run.layers)
        return [layer for layer in layers if not type(layer).__module__.startswith("keras.")]

    @cached_property
    def calls_in_training(self) -> list[Call]:
        """How train steps call the models that they train, and `own_layers`."""
        watched = [*self.run.trained_models.values(), *self.own_layers]
        return [
            call for step in dict.fromkeys(self.run.functions.train_steps)
            for call in self.calls(step, self.run, self.batch, watched)
        ]  # fmt: skip

    @cached_property
    def calls_in_validation(self) -> list[Call]:
        """How the validation step calls the models that are trained."""
        step, models = self.run.functions.validation_step, self.run.trained_models.values()
        return self.calls(step, self.on_one.run, self.evaluation_batch, models)

    @cached_property
    def looks_at_batch(self) -> str:
        """A layer whose outputs for a row depend on the whole batch; empty if there is none."""
        for layer in self.run.layers:
            if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
                return str(layer.name)
            if getattr(layer, "activity_regularizer", None) is not None:
                return str(layer.name)
        return ""

    @cached_property
    def sensitive_layers(self) -> dict[str, keras.layers.Layer]:
        """Layers that do something else while training, by the names of `sees_training`."""
        return {name_of(layer): layer for layer in self.run.layers if cares_about_training(layer)}

    @cached_property
    def overruled(self) -> str:
        """A layer that trains inside a model that is called with training=False, or nothing."""
        for model in self.run.models.values():
            for inner in getattr(model, "operations", []):
                calls = getattr(inner, "_inbound_nodes", [])
                still = any(node.arguments.kwargs.get("training") is False for node in calls)
                if not still or not isinstance(inner, keras.Model):
                    continue
                for layer in inner._flatten_layers():
                    if layer.trainable and True in self.sees_training.get(name_of(layer), set()):
                        return name_of(layer)
        return ""

    @cached_property
    def unused_layer(self) -> str:
        """A layer that is called on what a model computes, and isn't part of one; or nothing."""
        parts = [layer for model in self.run.models.values() for layer in model._flatten_layers()]
        parts += [part for model in [*parts] for part in getattr(model, "operations", [])]
        known = set(map(id, parts))
        for node in (node for part in parts for node in getattr(part, "_outbound_nodes", [])):
            other = node.operation
            if id(other) not in known and not other._outbound_nodes and (
                isinstance(other, keras.layers.Layer) and cares_about_training(other)
            ):  # fmt: skip
                return str(other.name)
        return ""

    @cached_property
    def always_training(self) -> set[str]:
        """The layers that a model calls in training mode though it is called otherwise."""
        seen: dict[str, set[bool]] = {}
        with layers_recorded(self.run, seen), contextlib.suppress(Exception):
            for model in self.run.models.values():
                symbols = model.inputs[0] if isinstance(model, keras.Sequential) else model.input
                model(tf.nest.map_structure(_zeros, symbols), training=False)
        self.reset()
        return {name for name, modes in seen.items() if True in modes}

    @cached_property
    def fixed_in_training(self) -> str:
        """A layer that is put into a model in training mode, such as Dropout; or nothing."""
        for name, layer in self.sensitive_layers.items():
            nodes = getattr(layer, "_inbound_nodes", [])
            if any(node.arguments.kwargs.get("training") is True for node in nodes):
                return name
        return ""

    @cached_property
    def evaluated_in_training(self) -> str:
        """A layer that evaluation calls in training mode, though the model isn't made so."""
        active = [name for name, said in self.sees_evaluation.items() if True in said]
        return next((name for name in active if name not in self.always_training), "")

    @property
    def normalizes_by_batch(self) -> str:
        """A normalization layer that takes the statistics of the batch in evaluation; or nothing.

        So that an evaluation of one example gives another result than that of many.
        """
        kind = keras.layers.BatchNormalization
        names = [name_of(x) for x in self.run.layers if isinstance(x, kind) and x.trainable]
        return next((name for name in names if name in self.always_training), "")

    @cached_property
    def evaluation_sees(self) -> str:
        """What in evaluation the only model's outputs depend on beside their own row.

        That is "chance", "the other rows", "the place in the batch" or nothing.
        """
        if len(self.run.trained_models) != 1 or self.rows < 4:
            return ""
        rows = max(2, self.rows // 3)

        def outputs(change: Callable[[tf.Tensor], tf.Tensor]) -> list[tf.Tensor]:
            inputs = tf.nest.map_structure(lambda t: change(t[0]), self.batch[0])
            return tf.nest.flatten(self.run.model(inputs, training=False))

        try:
            whole, again = outputs(tf.identity), outputs(tf.identity)
            first, turned = outputs(lambda t: t[:rows]), outputs(lambda t: tf.reverse(t, [0]))
        except Exception:  # a step may give it something else than the inputs
            return ""
        if relative_difference(whole, again) > 10 * TOLERANCE:
            return "chance"
        if relative_difference([t[:rows] for t in whole], first) > 10 * TOLERANCE:
            return "the other rows"
        if relative_difference([t[::-1] for t in whole], turned) > 10 * TOLERANCE:
            return "the place in the batch"
        return ""

    @cached_property
    def paddings(self) -> list[tuple[str, str, Any]]:
        """Masks, what they leave out, and the batch of an evaluation with other numbers there.

        A mask is zeros and ones (rows, positions); the end of each row is padding if all is the
        same there.
        """
        inputs, *rest = self.evaluation_batch
        leaves = tf.nest.flatten(inputs)
        names = [name for name, _ in named_leaves((inputs,))]
        found = []
        for i, mask in enumerate(leaves):
            zeros_and_ones = np.asarray(mask[0])
            if zeros_and_ones.ndim != 2 or not np.isin(zeros_and_ones, (0, 1)).all():
                continue
            is_there = zeros_and_ones.astype(bool)
            for keep in (is_there, ~is_there):  # a mask may say what is padding
                if keep.all() or (keep[:, 1:] > keep[:, :-1]).any():
                    continue
                for j, leaf in enumerate(leaves):
                    x = np.asarray(leaf[0])
                    if i == j or x.dtype.kind not in "iuf" or x.shape[:2] != keep.shape:
                        continue
                    if np.ptp(x[~keep]) == 0 < np.ptp(x[keep]):
                        changed = x.copy()
                        changed[~keep] = np.resize(x[keep], changed[~keep].shape)
                        others = [*leaves]
                        others[j] = tf.constant(changed[np.newaxis])
                        packed = tf.nest.pack_sequence_as(inputs, others)
                        found.append((names[i], names[j], (packed, *rest)))
        return found

    @cached_property
    def normalizes(self) -> bool:
        """Whether a layer brings inputs to another scale."""
        names = ("Normalization", "Rescaling", "Embedding", "Discretization", "CategoryEncoding")
        return any(type(layer).__name__.endswith(names) for layer in self.run.layers)

    def leaves_out(self, name: str, column: int, value: float) -> bool:
        """Whether a number of an input's column means something else than one that is nearby."""
        inputs, *rest = self.batch
        names = [each for each, _ in named_leaves((inputs,))]
        leaves = tf.nest.flatten(inputs)
        place = names.index(name)
        numbers = np.array(leaves[place])  # a copy: the batch stays as it is
        losses = []
        for number in (value, 1.001 * value):
            numbers.reshape(*numbers.shape[:2], -1)[..., column] = number  # a view of it
            leaves[place] = tf.constant(numbers)
            batch = (tf.nest.pack_sequence_as(inputs, leaves), *rest)
            losses.append(self.compute(self.run.functions.train_steps[0], self.run, batch))
        return bool(different(losses[0], losses[1], 0.05))

    @cached_property
    def rescales(self) -> bool:
        """Whether a layer scales inputs, however small they are."""
        kinds = keras.layers
        some = kinds.Normalization, kinds.Rescaling, kinds.UnitNormalization, kinds.Embedding
        return any(isinstance(layer, some) for layer in self.run.layers)

    @cached_property
    def predicts_the_next(self) -> bool:
        """Whether labels are the inputs shifted by one, as in a language model."""
        x, y, _ = self._tokens
        return x is not None and bool(np.mean(y[:, :-1] == x[:, 1:]) > 0.9)

    @cached_property
    def predicts_the_one_before(self) -> bool:
        """Whether labels are the inputs shifted by one the wrong way."""
        x, y, _ = self._tokens
        return x is not None and bool(np.mean(y[:, 1:] == x[:, :-1]) > 0.9) and not (
            self.predicts_the_next
        )  # fmt: skip

    @cached_property
    def predicts_its_input(self) -> bool:
        """Whether labels are whole numbers, and the same as the inputs."""
        x, y, _ = self._tokens
        whole = x is not None and x.dtype.kind == "i"  # an autoencoder's are numbers
        return whole and bool(np.mean(x == y) > 0.99) and bool(np.ptp(x) > 0)

    @cached_property
    def answers_moved_into_inputs(self) -> float:
        """Where the augmentation puts what is to be predicted, as a part of the places; or 0."""
        x, y, _ = self._tokens
        flat = [tf.nest.flatten(part) for part in self.plain_batch[:-1]]
        if x is None or [len(part) for part in flat] != [1, 1] or self.batches.augment is None:
            return 0.0
        a, b = (np.asarray(part[0]) for part in flat)
        if a.shape != b.shape or a.ndim < 2 or np.mean(b[..., :-1] == a[..., 1:]) < 0.9:
            return 0.0
        numbers, times = np.unique(b, return_counts=True)
        padding = numbers[times.argmax()]
        before, share = np.mean((a == b)[b != padding]), float(np.mean((x == y)[y != padding]))
        return share if share > 3 * before + 0.05 else 0.0

    @cached_property
    def _tokens(self) -> tuple[Any, Any, int]:
        """Inputs and labels of a sequence, (rows, positions); None if they are something else.

        They are whole numbers, or, of a series, one of the numbers at each position. Of several
        inputs, such as those of an encoder and a decoder, one that is shaped as the labels are; its
        number comes last.
        """
        parts = [tf.nest.flatten(part) for part in self.batch[:-1]]
        if len(parts) != 2 or len(parts[1]) != 1:
            return None, None, 0
        for i, leaf in enumerate(parts[0]):
            x, y = np.asarray(leaf[0]), np.asarray(parts[1][0][0])
            if x.dtype.kind == y.dtype.kind == "f":
                x, y = (t[..., 0] if t.ndim == 3 else t for t in (x, y))
                if x.shape == y.shape and np.mean(x == y) > 0.5:
                    continue  # such as the many zeros of an autoencoder
            fits = x.shape == y.shape and x.ndim == 2 and x.shape[1] > 3
            is_mask = x.dtype.kind == "i" and np.ptp(x) <= 1
            if fits and x.dtype.kind == y.dtype.kind in "if" and not is_mask:
                return x, y, i
        return None, None, 0

    def _with_other_tokens(self, change: Callable[[tf.Tensor], tf.Tensor]) -> Any:
        """The inputs of the first batch, with other tokens: a nest of (1, rows, ...)."""
        leaves = tf.nest.flatten(self.batch[0])
        place = self._tokens[2]
        leaves[place] = change(leaves[place])
        return tf.nest.pack_sequence_as(self.batch[0], leaves)

    @cached_property
    def padded_labels(self) -> np.ndarray | None:
        """Where labels (rows, positions) are padding that has a weight; None if there is none.

        Padding is a number at the end of rows, of which each has another length.
        """
        parts = [tf.nest.flatten(part) for part in self.batch]
        if len(parts) != 3 or any(len(part) != 1 for part in parts[1:]):
            return None
        y, w = (np.asarray(part[0][0]) for part in parts[1:])
        if y.ndim != 2 or y.shape[1] < 4 or y.dtype.kind not in "iu":
            return None
        numbers, times = np.unique(y[:, -1], return_counts=True)
        same = y == numbers[times.argmax()]
        at_end = np.logical_and.accumulate(same[:, ::-1], axis=1)[:, ::-1]
        lengths = at_end.sum(axis=1)
        if at_end.mean() < 0.1 or at_end.sum() < 0.95 * same.sum() or len(np.unique(lengths)) < 3:
            return None
        weighted = at_end & (w.reshape(len(w), -1) != 0)
        return weighted if weighted.any() else None

    @cached_property
    def sees_later_positions(self) -> bool:
        """Whether predictions for the first half of a sequence depend on its second half."""
        half = self._tokens[0].shape[1] // 2
        other = self._with_other_tokens(
            lambda t: tf.concat([t[:, :, :half], tf.roll(t[:, :, half:], 1, axis=1)], axis=2)
        )
        a, b = (
            np.asarray(self.run.model(tf.nest.map_structure(lambda t: t[0], x), training=False))
            for x in (self.batch[0], other)
        )
        return relative_difference(a[:, :half], b[:, :half]) > 10 * TOLERANCE

    @cached_property
    def labels_shifted_again(self) -> int:
        """By how many positions the loss gets later labels than the predictions are for."""
        x, y, _ = self._tokens
        _, *rest = self.batch

        def change(t: tf.Tensor) -> tf.Tensor:
            return tf.concat([t[..., :-1], tf.roll(t[..., -1:], 1, axis=1)], axis=-1)

        for name, (given, predictions, _) in self.base.calls.items():
            if x is None or predictions is None or np.ndim(given) != 2:
                continue
            shift = y.shape[1] - given.shape[1]
            if shift < 1 or not np.array_equal(given, y[:, shift:]):
                continue
            # Those of the last position change with its input; if they don't, they are left out.
            others = self.look((self._with_other_tokens(change), *rest)).calls[name][1]
            if np.array_equal(np.asarray(predictions)[:, -1], np.asarray(others)[:, -1]):
                return int(shift)
        return 0

    @cached_property
    def other_labels_of_weight_zero(self) -> Any:
        """The first batch with other labels where weights are 0; None if there are none."""
        if len(self.batch) != 3:
            return None
        inputs, labels, weights = self.batch
        y, w = (tf.nest.flatten(part) for part in (labels, weights))
        if len(y) != 1 or len(w) != 1 or y[0].shape != w[0].shape or w[0].shape.rank < 3:
            return None
        zero = w[0] == 0
        if not np.any(zero) or np.all(zero):
            return None
        others = tf.where(zero, tf.roll(y[0], 1, axis=2), y[0])
        return (inputs, tf.nest.pack_sequence_as(labels, [others]), weights)

    @cached_property
    def directions(self) -> dict[str, bool]:
        """The metrics that have a better side, and whether that is the larger one."""
        found = {}
        for name, metric in self.run.metrics.items():
            kind = type(metric).__name__
            if kind.endswith(LARGER_IS_BETTER) or "accuracy" in name.lower():
                found[name] = True
            elif kind.endswith(SMALLER_IS_BETTER):
                found[name] = False
        return {name: larger for name, larger in found.items() if name in self.base.metrics}

    def larger_is_better(self, name: str) -> bool | None:
        """Whether larger values of a loss or metric are; None if neither class nor name say so."""
        if name == "loss" or name.endswith("_loss"):
            return False
        words = set(re.split(r"[^a-z0-9]+", name.lower()))
        more, less = bool(words & MORE), bool(words & LESS)
        return self.directions.get(name.partition("/")[0], None if more == less else more)

    @property
    def monitored(self) -> tuple[str, bool]:
        """The column that selects the best weights, and whether larger values are better."""
        return self._task.monitor, self._task.larger_is_better

    @property
    def trained_by_several_steps(self) -> list[str]:
        """The names of train steps that share an optimizer, if that trains several models."""
        _ = self.base
        functions = self.run.functions.train_steps
        for name, steps in self.steps_of.items():
            # One may come several times: a critic is trained more often than its generator.
            distinct = dict.fromkeys(functions[i] for i in steps)
            if len(distinct) > 1 and len(self.run.models_of(name)) > 1:
                return [function.__name__ for function in distinct]
        return []

    @cached_property
    def unknown_variables(self) -> list[Any]:
        """Trainable variables that the losses follow from and that belong to no model."""
        run = self.run
        owners = [*run.models.values(), *run.optimizers.values(), *run.metrics.values()]
        known = {id(v._value) for owner in owners for v in owner.variables}
        graph = self.ops[0].graph
        read = {id(t) for t, inside in graph.captures if inside.op.name in self.ops_of_losses}
        return [v for v in graph.variables
                if v.trainable and id(v) not in known and id(v.handle) in read]  # fmt: skip

    @cached_property
    def untracked(self) -> set[int]:
        """The ids of variables of TensorFlow that layers hold, alone or in a list or dict."""
        held = [value for layer in self.run.layers for value in vars(layer).values()]
        held += [v for value in held if isinstance(value, list | tuple) for v in value]
        held += [v for value in held if isinstance(value, dict) for v in value.values()]
        return {id(value) for value in held if isinstance(value, tf.Variable)}

    # The optimizers.

    @cached_property
    def inner_optimizers(self) -> list[tuple[str, keras.optimizers.Optimizer]]:
        """Every optimizer that has a learning rate of its own, with its name."""
        found = []
        for name, optimizer in self.run.optimizers.items():
            outer, *inner = all_optimizers(optimizer)
            found += [(name, each) for each in inner or [outer]]
        return found

    def processed(self, size: float = 1e-3) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """Paths of variables, gradients of both signs, and what process_gradients makes of them."""
        found: list[tuple[str, np.ndarray, np.ndarray]] = []  # two models may share a path
        numbers = np.random.default_rng(0)
        for name in self.run.optimizers:
            variables = self.run.variables_of(name)
            some = [size * numbers.standard_normal(v.shape) for v in variables]
            gradients = [tf.constant(g, v.dtype) for g, v in zip(some, variables, strict=True)]
            with contextlib.suppress(Exception):  # it may need what only a step has
                new = self.run.functions.process_gradients(gradients, variables)
                for v, given, made in zip(variables, some, new, strict=True):
                    found.append((v.path, np.ravel(given), np.ravel(np.asarray(made, "f8"))))
        return found

    @property
    def is_adaptive(self) -> bool:
        """Whether each optimizer divides gradients by their size."""
        return all(type(o).__name__ in ADAPTIVE for _, o in self.inner_optimizers)

    @cached_property
    def is_sign_based(self) -> bool:
        """Whether rounding of a gradient may become a whole step."""
        return any(type(o).__name__ in SIGN_BASED for _, o in self.inner_optimizers)

    # Some training.

    @cached_property
    def before_and_after(self) -> list[tuple[keras.Variable, np.ndarray, np.ndarray]]:
        """Each variable that trains, its value at the start and after the first real steps."""
        variables = self.run.trainable_variables
        initial = [self.initial[id(v)] for v in variables]
        return list(zip(variables, initial, self.trained_on_one.weights, strict=True))

    @cached_property
    def losses_on_one_batch(self) -> tuple[Numbers, Numbers, int]:
        """The losses before and after that many steps on the first batch, with the same noise."""
        batches = tf.data.Dataset.from_tensors(self.batch).repeat()
        steps = len(self.train_longer(batches, REPEATED_STEPS))
        after = self.look(self.batch).losses
        self.reset()
        names = self.run.optimizers
        return {n: self.base.losses[n] for n in names}, {n: after[n] for n in names}, steps

    @cached_property
    def falls_downhill(self) -> bool:
        """Whether a small step against the gradients that are applied lowers the loss."""
        names = list(self.run.optimizers)
        changes = self.changes_by_step_of(names)
        return sum(changes[name] for name in names) < 0

    @property
    def imitations(self) -> Iterator[tuple[str, tuple[int, int], tuple[float, float]]]:
        """Models whose outputs are of the shape of the examples, where another model judges both.

        Yields:
            The name, the bounds of its last activation, the smallest and the largest real number.
        """
        inputs = tf.nest.flatten(self.batch[0])
        if len(self.run.trained_models) < 2 or len(inputs) != 1 or not inputs[0].dtype.is_floating:
            return
        real = np.asarray(inputs[0][0])
        for name, model in self.run.trained_models.items():
            activation = getattr(getattr(model.layers[-1], "activation", None), "__name__", "")
            if activation in BOUNDS and getattr(model, "output_shape", ())[1:] == real.shape[1:]:
                yield name, BOUNDS[activation], (float(real.min()), float(real.max()))

    @cached_property
    def ignores_inputs(self) -> bool:
        """Whether every loss is the same with the inputs of the second step."""
        other = (self.second_batch[0], *self.batch[1:])

        def differs(step: int) -> bool:
            own = self.look(self.batch, step=step).losses if step else self.base.losses
            return bool(different(own, self.look(other, step=step).losses, 1e-6))

        return not any(differs(step) for step in range(LOOKS if self.base.drawn else 1))

    def changes_by_step_of(self, names: list[str]) -> Numbers:
        """How a small step against the gradients of some optimizers changes all losses."""
        gradients = {name: self.base.gradients[name] for name in names}
        before = max(map(abs, self.base.losses.values()))  # a change of any loss must show
        norm = sum(float(np.sum(np.square(g))) for g in tf.nest.flatten(gradients))
        size = 1e-3 * max(before, 1e-3) / (norm or 1.0)
        for name in names:
            for v, gradient in zip(self.run.variables_of(name), gradients[name], strict=True):
                v.assign_sub(size * gradient)
        after = self.look(self.batch).losses
        self.reset()
        return {name: after[name] - loss for name, loss in self.base.losses.items()}

    @cached_property
    def fresh(self) -> tuple[list[Numbers], Numbers, Numbers | None]:
        """Losses on new batches; then that of the first, and with the labels of other examples."""
        try:
            return self._fresh()
        finally:
            self.reset()

    def _fresh(self) -> tuple[list[Numbers], Numbers, Numbers | None]:
        losses = self.train_longer(self.batches.dataset(0, FRESH_STEPS), FRESH_STEPS)
        inputs, *labels, weights = self.batch
        for metric in self.run.metrics.values():  # of the look alone, not of all steps before it
            metric.reset_state()
        # Numbers drawn for each row, as in stochastic depth, are the same for all rows here.
        looks = LOOKS if self.base.drawn else 1
        self._after_training = [self.look(self.batch, step=step) for step in range(looks)]
        mixed = None
        if labels:
            turned = tf.nest.map_structure(lambda t: tf.roll(t, self.rows // 2, axis=1), labels)
            losses_of_others = self.look((inputs, *turned, weights)).losses
            mixed = {name: losses_of_others[name] for name in self.run.optimizers}
        return losses, self._after_training[0].losses, mixed

    @property
    def after_training(self) -> Look:
        """The first step, after some training."""
        return self.looks_after_training[0]

    @property
    def looks_after_training(self) -> list[Look]:
        """The same with the random numbers of other steps too, if a step draws some."""
        _ = self.fresh
        return self._after_training

    @property
    def calls_after_training(self) -> dict[str, list[tuple[Any, ...]]]:
        """Of each of these looks, what a loss was called with: (labels, predictions, result).

        Where a step computes its losses by itself, what the model gave, and the labels as they are.
        """
        looks = self.looks_after_training
        if not looks[0].calls and looks[0].outputs:
            _, *parts, _ = self.batch
            labels = parts[0][0] if len(parts) == 1 and tf.is_tensor(parts[0]) else None
            (name,) = self.run.trained_models
            return {name: [(labels, look.outputs[0], None) for look in looks]}
        return {name: [look.calls[name] for look in looks] for name in looks[0].calls}


def _zeros(tensor: keras.KerasTensor) -> tf.Tensor:
    return tf.zeros([size or 2 for size in tensor.shape], tensor.dtype)
