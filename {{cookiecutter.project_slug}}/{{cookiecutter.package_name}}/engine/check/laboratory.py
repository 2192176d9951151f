"""Facts about the runs of a task that several relations need."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from ..batches import TrainingBatches, on_replicas
from ..distributed_steps import loss_counts
from ..gradients import all_optimizers
from ..model_inputs import input_of, taken_by
from ..outside import variables_outside
from ..replicas import batch_dependent, normalizations
from ..types import Run, Step
from .findings import NOT_LOOKED_AT
from .numbers import TOLERANCE, Numbers, answers, close, hashes_of, relative_difference
from .probe import (
    Look,
    cares_about_training,
    is_own,
    layers_recorded,
    metrics_recorded,
    name_of,
    replaced,
    words_of,
)
from .rates import longer_than, rates_of_run, with_short_warm_ups
from .runs import LONGEST_TRAINING, Call, Runs, secs_of_work

REPEATED_STEPS, FRESH_STEPS = 30, 60
SELDOM = 3  # times
ALONE = 20  # steps of some optimizers
LITTLE = 0.05  # of the norm of a matrix; 60 usual steps change it by 0.1 to 0.5
LOOKS = 5  # at steps with other random numbers
LATER_LOOKS = 10  # at the steps after the first, and as many over the whole run
MOST_LOOKS = 100  # at more steps, for what is seldom drawn: 0.95 ** 100 is 0.006
ADAPTIVE = ("Adam", "AdamW", "Nadam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Lion", "Lamb")
SHARES = ("Accuracy", "Precision", "Recall", "AUC", "F1Score", "FBetaScore", "IoU", "Sensitivity",
          "Specificity")  # fmt: skip
LARGER_IS_BETTER = (*SHARES, "R2Score")
SMALLER_IS_BETTER = ("Error", "Crossentropy", "Hinge", "KLDivergence", "Poisson")
MORE = {"accuracy", "acc", "recall", "precision", "f1", "auc", "iou", "miou", "dice", "r2", "psnr",
        "ssim", "bleu", "jaccard", "auroc", "auprc", "prauc", "sensitivity", "specificity", "rouge",
        "match", "matches", "hit", "hits", "ndcg", "mrr", "kappa", "mcc", "correlation", "pearson",
        "spearman", "concordance", "cindex", "pck"}  # fmt: skip
LESS = {"error", "errors", "perplexity", "mse", "rmse", "mae", "nll", "wer", "cer", "fid",
        "frechet", "regret", "kid", "lpips", "hausdorff", "mape", "rmsle", "logloss", "deviance",
        "distance", "smape", "crps", "brier", "ece", "fpr", "fnr", "eer", "nmse", "nrmse", "mase",
        "pinball", "bpd", "mpjpe", "epe", "chamfer"}  # fmt: skip


# For comparisons of two numbers, larger or smaller may be better; some are turned around.
OF_TWO = {"gap", "drop", "difference", "excess", "relative", "skill", "change", "ratio",
          "minus", "explained", "neg", "negative", "negated", "improvement", "reduction", "delta",
          "diff", "vs", "versus", "gain", "lift", "uplift", "false"}  # fmt: skip
TOO_FEW_ROWS = f"{NOT_LOOKED_AT}: the batch has too few rows"
WITH_NUMBERS = "a-z0-9"  # of the words in names of losses, metrics and results


class Pulled(NamedTuple):
    """Labels, predictions for them, and the slope of all losses by each prediction."""

    labels: np.ndarray
    predictions: np.ndarray
    slopes: np.ndarray


class Laboratory(Runs):
    """A task under observation, and the facts known about it."""

    @contextlib.contextmanager
    def in_float64(self) -> Iterator[Laboratory | None]:
        """The same task in float64; None if it already is."""
        if keras.config.floatx() == "float64":
            yield None
            return
        with _dtypes_kept():
            keras.config.set_floatx("float64")
            keras.config.set_dtype_policy("float64")
            yield self._exact

    @property
    def in_own_precision(self) -> Run:
        """The task in the precision of the run, 16 bits too."""
        with _dtypes_kept():
            return self.other(precision=self.precision)

    @contextlib.contextmanager
    def without_failing_metrics(self) -> Iterator[set[str]]:
        """An update that raises an error changes nothing; yields the names of such metrics."""
        failed, metrics = set[str](), self.run.metrics
        names = {id(metric): name for name, metric in metrics.items()}

        def tried(metric: Any, update: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> None:
                try:
                    update(*args, **kwargs)
                except Exception:  # such as that of a top-k accuracy in float64 (Keras 3.15)
                    failed.add(names[id(metric)])

            return call

        with replaced([(metric, "update_state") for metric in metrics.values()], tried):
            yield failed

    @cached_property
    def _exact(self) -> Laboratory:
        config = replace(self.config, precision="float64")
        return replace(self, create_datasets=lambda _: self._all_datasets, config=config)

    @cached_property
    def hashes(self) -> dict[str, np.ndarray]:
        """A number for each example of each split, without its weights, uint64 (rows,).

        A training example may have several, which the augmentation chooses from. Splits may share
        examples if other parts of them count, such as the nodes of a graph.
        """
        found = {}
        others: dict[str, Any] = self.examples.get("validation", self.examples.get("test", {}))
        for split, named in self.examples.items():
            parts = {n: a for n, a in named.items() if not n.startswith("weights")}
            if all(a.ndim > 2 and a.shape[2:] == np.shape(others.get(n, ()))[1:]
                   for n, a in parts.items()):  # fmt: skip
                parts = {n: a.reshape(-1, *a.shape[2:]) for n, a in parts.items()}
            arrays = [a.reshape(len(a), -1) for a in parts.values() if len(a)]
            # Which parts of each example count, if some don't: (rows, parts).
            counts = [a.reshape(len(a), -1) != 0
                      for n, a in named.items() if n.startswith("weights")]  # fmt: skip
            arrays += [a for a in counts if arrays and len(a) == len(arrays[0])
                       if not a.all() and (a.shape[1] > 1 or not a.any())]  # fmt: skip
            found[split] = hashes_of(arrays)
        return found

    # The batch.

    @property
    def batches(self) -> TrainingBatches:
        """The training data in the order of the steps."""
        return self.one[2]

    @cached_property
    def plain_batches(self) -> list[Any]:
        """The first two batches before they are augmented: nests of (1, rows, ...)."""
        batches = self.batches
        plain = TrainingBatches(
            batches.split,
            batches.layout,
            seed=batches.seed,
            last_batch=batches.last_batch,
            steps=self.num_steps,
        )
        return list(plain.dataset(0, 2))

    @property
    def plain_batch(self) -> Any:
        """The first of them: a nest of (rows, ...)."""
        return tf.nest.map_structure(lambda t: t[0], self.plain_batches[0])

    @cached_property
    def evaluation_batches(self) -> dict[str, Any]:
        """The first batch of each evaluated split: a nest of (1, rows, ...), weights last."""
        _ = self.evaluations
        return {split: next(iter(of[0])) for split, of in self.on_one._batches.items()}

    @property
    def evaluation_batch(self) -> Any:
        """That of the first of them."""
        return next(iter(self.evaluation_batches.values()))

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
        half = self.rows // 2
        *parts, _ = tf.nest.map_structure(
            lambda t, other: tf.concat([t[:, :half], other[:, half:]], axis=1),
            self.batch,
            self.second_batch,
        )
        return (*parts, self.with_zeros[-1])

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

    def counts_of(self, batch: Any) -> dict[str, int]:
        """The counts of a batch, for each of the losses and terms."""
        counts = loss_counts(self.run, self.count_in(batch))
        return dict(zip(self.run.returned, counts.numpy().tolist(), strict=True))

    def count_in(self, batch: Any) -> Any:
        """The result of `count` for a batch."""
        local = on_replicas(batch, self.run.strategy, self.one[1].layout)
        return self.run.functions.count(local)

    def count(self, batch: Any) -> int:
        """The largest count of a batch over the losses and terms."""
        return max(self.counts_of(batch).values())

    @cached_property
    def counts_weights(self) -> bool:
        """Whether doubling the weights doubles the count."""
        return self.counts_of(self.weighted(lambda w: 2 * w)) != self.counts_of(self.batch)

    @cached_property
    def counts(self) -> Any:
        """The result of `count` for the first batch."""
        return self.count_in(self.batch)

    @property
    def has_other_denominators(self) -> bool:
        """Whether losses have other denominators than one count."""
        return self.one[1].constant_denominator or isinstance(self.counts, dict)

    @cached_property
    def means_of_halves(self) -> dict[str, tuple[float, float]]:
        """For each loss, the mean over its halves, and their sum, with regularization once."""
        return self.means_of_halves_at(0)

    def means_of_halves_at(self, step: int) -> dict[str, tuple[float, float]]:
        """The same in another step than the first."""
        halves = self.with_zeros, self.with_the_other_half
        losses = [self.look(half, step=step).losses for half in halves]
        counts = [self.counts_of(half) for half in halves]
        found = {}
        for name in self.base.losses:
            (x, y), (m, n) = ([each[name] for each in of] for of in (losses, counts))
            found[name] = (m * x + n * y) / max(1, m + n), x + y - self.regularization(name)
        return found

    @cached_property
    def has_halves(self) -> bool:
        """Whether the first batch has two halves whose counts add up to the denominator."""
        if self.rows < 4 or self.has_other_denominators or self.counts_weights:
            return False
        halves = self.with_zeros, self.with_the_other_half
        return sum(map(self.count, halves)) == self.base.counted

    @cached_property
    def interacts(self) -> bool:
        """Whether a loss is neither the mean nor the sum of its halves."""
        return self.has_halves and any(
            not any(close(half, self.base.losses[name], 10 * TOLERANCE) for half in halves)
            for name, halves in self.means_of_halves.items()
        )

    def losses_of_answers(self, name: str) -> tuple[float, ...] | None:
        """The mean values of a loss for `answers` to the first batch; None if there are none."""
        labels, predictions, _ = self.base.calls[name]
        made, loss = answers(labels, predictions), self.run.losses[name]
        try:  # it may expect other arguments
            return made and tuple(float(np.mean(loss(labels, tf.constant(p)))) for p in made)
        except Exception:
            return None

    def result_of(self, metric: str, *arguments: Any) -> float | None:
        """What a metric gives after one update; None if that isn't one finite number."""
        of = self.run.metrics[metric]
        try:  # it may expect other arguments
            of.reset_state()
            of.update_state(*arguments)
            result = float(np.asarray(of.result()))
        except Exception:
            return None
        finally:
            for variable in of.variables:
                variable.assign(self.initial[id(variable)])
        return result if np.isfinite(result) else None

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
    def adds_terms(self) -> bool:
        """Whether the only loss is the sum of its terms, with or without regularization."""
        if len(self.run.optimizers) != 1:
            return False
        (name,) = self.run.optimizers
        rest = self.base.losses[name] - sum(self.base.losses[term] for term in self.run.terms)
        return close(rest, 0) or close(rest, self.regularization(name))

    @cached_property
    def total_regularization(self) -> float:
        """The sum of all regularizers."""
        return sum(self.regularization(name) for name in self.run.optimizers)

    @cached_property
    def penalties(self) -> Numbers:
        """The part of each loss that is left without examples: regularization, or one's own."""
        losses = self.look(self.weighted(lambda w: 0 * w)).losses
        return {name: losses[name] if np.isfinite(losses[name]) else 0.0
                for name in self.run.optimizers}  # fmt: skip

    # The models.

    @property
    def unknown_variables(self) -> list[tf.Variable]:
        """Variables that a step reads but the engine doesn't know, such as those of a loss."""
        return variables_outside(self.run, self.traced.ops[0].graph)

    def was_trained(self, layer: keras.layers.BatchNormalization) -> bool:
        """Whether its moving averages come from a pretrained model."""
        return bool(np.any(self.initial[id(layer.moving_mean)]))

    @cached_property
    def own_layers(self) -> list[keras.layers.Layer]:
        """Layers of your own that behave differently in training."""
        layers = filter(cares_about_training, self.run.layers)
        return [layer for layer in layers if is_own(layer)]

    @property
    def layers_with_matrices(self) -> list[keras.layers.Layer]:
        """The layers of Keras that have a matrix of weights, or weights with more axes."""
        return [
            layer
            for layer in self.run.layers
            if not is_own(layer) and not isinstance(layer, keras.Model)
            if any(len(v.shape) > 1 for v in layer.weights)
        ]

    @cached_property
    def calls_in_training(self) -> list[Call]:
        """How train steps call the models that they train, and `own_layers`."""
        watched = [*self.run.trained_models.values(), *self.own_layers]
        return self.training_calls(self.batch, watched)

    def training_calls(self, batch: Any, watched: Iterable[Any], seed: int = 1) -> list[Call]:
        """How train steps call some models or layers, on a batch."""
        steps = dict.fromkeys(self.run.functions.train_steps)
        return [call for step in steps for call in self.calls(step, self.run, batch, watched, seed)]

    @cached_property
    def calls_in_validation(self) -> list[Call]:
        """How the validation step calls the models that are trained."""
        return self.validation_calls(self.evaluation_batch, self.run.trained_models.values())

    def validation_calls(self, batch: Any, watched: Iterable[Any]) -> list[Call]:
        """How the validation step calls some models or layers, on a batch."""
        return self.calls(self.run.functions.validation_step, self.on_one.run, batch, watched)

    def validate(
        self, batch: Any, at: int = 0, *, metrics: bool = False, twice: str = ""
    ) -> Numbers:
        """The result of the validation step for a batch, see `compute`."""
        step, run = self.run.functions.validation_step, self.on_one.run
        return self.compute(step, run, batch, at, metrics=metrics, twice=twice)

    def validated(self, batch: Any) -> tuple[Numbers, dict[str, list[tf.Tensor]]]:
        """The losses and metrics of a batch in validation, and the arguments of each metric."""
        seen: dict[str, tuple[Any, ...]] = {}
        _ = self.base  # otherwise its trace would be recorded, too
        with metrics_recorded(self.on_one.run, seen):
            results = self.validate(batch, metrics=True)
        given = {name: [v for v in values if v is not None] for name, values in seen.items()}
        return results, given

    @cached_property
    def looks_at_batch(self) -> str:
        """A layer whose outputs for a row depend on the whole batch; empty if there is none."""
        return next((str(layer.name) for layer in batch_dependent(self.run.layers)), "")

    @cached_property
    def sensitive_layers(self) -> dict[str, keras.layers.Layer]:
        """Layers that behave differently in training, by the names of `sees_training`."""
        return {name_of(layer): layer for layer in self.run.layers if cares_about_training(layer)}

    @cached_property
    def always_training(self) -> set[str]:
        """The layers that a model calls in training mode although its own mode is another."""
        seen: dict[str, set[bool]] = {}
        with layers_recorded(self.run, seen), contextlib.suppress(Exception):
            for model in self.run.models.values():
                zeros = tf.nest.map_structure(
                    lambda t: tf.zeros([size or 2 for size in t.shape], t.dtype), input_of(model)
                )
                model(zeros, training=False)
        self.reset()
        return {name for name, modes in seen.items() if True in modes}

    @cached_property
    def evaluation_sees(self) -> str | None:
        """What else than its row an output of the only model depends on; None if it can't be told.

        In evaluation: "chance", "the other rows", "the position in the batch" or nothing.
        """
        if len(self.run.trained_models) != 1 or self.rows < 4:
            return None
        rows = max(2, self.rows // 3)

        def outputs(change: Callable[[tf.Tensor], tf.Tensor]) -> list[tf.Tensor]:
            inputs = tf.nest.map_structure(lambda t: change(t[0]), self.batch[0])
            model, number = self.run.model, len(tf.nest.flatten(inputs)[0])
            made = tf.nest.flatten(model(taken_by(model, inputs), training=False))
            return [t for t in made if t.shape[:1] == (number,)]  # others are of all rows

        try:
            whole, again = outputs(tf.identity), outputs(tf.identity)
            first, turned = outputs(lambda t: t[:rows]), outputs(lambda t: tf.reverse(t, [0]))
        except Exception:  # a step may pass something other than the inputs
            return None
        if not len(whole) == len(first) == len(turned) > 0:
            return None
        for seen, expected, made in (
            ("chance", whole, again),
            ("the other rows", [t[:rows] for t in whole], first),
            ("the position in the batch", [t[::-1] for t in whole], turned),
        ):
            if relative_difference(expected, made) > 10 * TOLERANCE:
                return seen
        return ""

    @cached_property
    def normalizes(self) -> bool:
        """Whether a layer changes the scale of its inputs."""
        names = ("Normalization", "Rescaling", "Embedding", "Discretization", "CategoryEncoding")
        return any(type(layer).__name__.endswith(names) for layer in self.run.layers)

    @cached_property
    def directions(self) -> dict[str, bool]:
        """The metrics with a known direction, and whether larger is better."""
        found = {}
        for name, metric in self.run.metrics.items():
            kind, words = type(metric).__name__, words_of(name, WITH_NUMBERS)
            if kind.endswith(LARGER_IS_BETTER) or ("accuracy" in words and not words & OF_TWO):
                found[name] = True
            elif kind.endswith(SMALLER_IS_BETTER) and not words & OF_TWO:
                found[name] = False
        return {name: larger for name, larger in found.items() if name in self.base.metrics}

    def larger_is_better(self, name: str) -> bool | None:
        """Whether larger values of a loss or metric are better; None if unknown."""
        words = words_of(name, WITH_NUMBERS)
        is_of_loss = (
            name in self.run.terms
            and not words & MORE
            and (self.adds_terms or (name in self.run.losses and self.base.losses[name] >= 0))
        )
        if name == "loss" or name.endswith("_loss") or is_of_loss:
            return False
        more, less = (bool(words & side and not words & OF_TWO) for side in (MORE, LESS))
        return self.directions.get(name.partition("/")[0], None if more == less else more)

    # The optimizers.

    @cached_property
    def inner_optimizers(self) -> list[tuple[str, keras.optimizers.Optimizer]]:
        """Every optimizer that has its own learning rate, with its name."""
        found = []
        for name, optimizer in self.run.optimizers.items():
            outer, *inner = all_optimizers(optimizer)
            found += [(name, each) for each in inner or [outer]]
        return found

    @cached_property
    def pulled(self) -> dict[str, Pulled]:
        """What loss functions get that take labels and predictions, one array each."""
        return self.pulled_at(lambda predictions: predictions)

    def pulled_at(self, change: Callable[[tf.Tensor], tf.Tensor]) -> dict[str, Pulled]:
        """The same where loss functions get changed predictions."""
        given: dict[str, tuple[tf.Tensor, tf.Tensor]] = {}
        found: dict[str, Pulled] = {}

        def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
            def called(labels: Any, predictions: Any, *others: Any, **more: Any) -> Any:
                if tf.is_tensor(labels) and tf.is_tensor(predictions):
                    predictions = change(predictions)
                    given.setdefault(name, (labels, predictions))
                    tape.watch(predictions)
                return function(labels, predictions, *others, **more)

            return called

        losses = {name: recorded(name, loss) for name, loss in self.run.losses.items()}
        run = replace(self.run, losses=losses)
        for step in dict.fromkeys(self.run.functions.train_steps):
            total: list[tf.Tensor] = []

            def summed(*arguments: Any, step: Step = step, total: list[Any] = total) -> Any:
                made = step(*arguments)
                total += made.values()
                return made

            with contextlib.suppress(Exception):  # a step may do what only a graph can
                with tf.GradientTape() as tape:
                    self.compute(summed, run, self.batch)
                slopes = tape.gradient(total, [p for _, p in given.values()])
                for (name, parts), slope in zip(given.items(), slopes, strict=True):
                    if slope is not None and name not in found:
                        found[name] = Pulled(*map(np.asarray, (*parts, slope)))
        return found

    def updates_per_step(self, name: str) -> int:
        """The number of updates of an optimizer per step: one for each train step that uses it."""
        return len(self.traced.steps_of.get(name, ())) or 1

    def updates_of_run(self, name: str) -> int:
        """The number of updates of an optimizer in the whole run."""
        return self.updates_per_step(name) * self.num_steps

    @cached_property
    def rates_of_run(self) -> dict[keras.optimizers.Optimizer, np.ndarray]:
        """The learning rates of all optimizers at 101 of their updates, from first to last."""
        named = self.inner_optimizers
        return {o: rates_of_run(o, self.updates_of_run(name)) for name, o in named}

    @property
    def of_normalizations(self) -> set[int]:
        """The ids of variables of layers that normalize by the batch, with its statistics."""
        return {id(v) for layer in normalizations(self.run.layers) for v in layer.variables}

    # Some training.

    @cached_property
    def before_and_after(self) -> list[tuple[keras.Variable, np.ndarray, np.ndarray]]:
        """Each trainable variable, its value at the start and after the first real steps."""
        variables = self.run.trainable_variables
        initial = [self.initial[id(v)] for v in variables]
        return list(zip(variables, initial, self.trained_on_one.weights, strict=True))

    def reached(self, look: Look) -> set[int]:
        """The ids of the variables that have a gradient in a step."""
        return {
            id(v)
            for name, gradients in look.gradients.items()
            for v, gradient in zip(self.run.variables_of(name), gradients, strict=True)
            if np.any(gradient)
        }

    @property
    def reached_later(self) -> set[int]:
        """The ids of variables that get a gradient in other batches or steps, or by other weights.

        For example experts that get few examples, where a part of the loss starts later, occurs
        every few steps or is seldom drawn, and where a callback raises a factor that is 0 at first.
        """
        return self._later[0]

    @property
    def has_looked_long(self) -> bool:
        """Whether that was for so many steps that each branch was drawn, or each expert chosen."""
        return self._later[1] == MOST_LOOKS

    @cached_property
    def _later(self) -> tuple[set[int], int]:
        """What `reached_later` is, and at how many steps it looked."""
        late = np.linspace(self.num_steps - 1, 0, LATER_LOOKS).astype(int).tolist()
        # One of the last steps comes first, as there may be time for few.
        pairs = zip(late, range(1, 1 + LATER_LOOKS), strict=True)
        # What is drawn is the same for all rows, so in a step all rows or none take a branch.
        more = range(1 + LATER_LOOKS, 1 + MOST_LOOKS - LATER_LOOKS)
        steps = [*(step for pair in pairs for step in pair), *more]
        wanted = {id(v) for v in self.run.trainable_variables}
        found, looks, spent = set[int](), 0, secs_of_work()
        for step, batch in zip(steps, self.batches.dataset(1, 1 + len(steps)), strict=False):
            found |= self.reached(self.look(batch, step=step))
            looks += 1
            if wanted <= found or spent() > 2 * LONGEST_TRAINING:
                break
        factors = [
            v for model in self.run.models.values() for v in model.non_trainable_variables
            if len(v.shape) == 0 and v.dtype.startswith("float") and not v.numpy()
        ]  # fmt: skip
        for factor in factors:
            factor.assign(1.0)
        found |= self.reached(self.look(self.batch)) if factors else set()
        # A router may choose none of its experts at first, by chance, but does with other weights.
        numbers, spent = np.random.default_rng(0), secs_of_work()
        for _ in range(LATER_LOOKS):
            if wanted & self.traced.teachable <= found or spent() > LONGEST_TRAINING:
                break
            for v in self.run.trainable_variables:
                v.assign(numbers.permutation(self.initial[id(v)].ravel()).reshape(v.shape))
            found |= self.reached(self.look(self.batch))
        self.reset()
        return found, looks

    @cached_property
    def losses_on_one_batch(self) -> tuple[Numbers, Numbers, int]:
        """The losses before and after that many steps on the first batch, with the same noise.

        Means over the noise of some steps, because all rows have the same noise within a step.
        """
        before = self._losses_with_noise()
        batches = tf.data.Dataset.from_tensors(self.batch).repeat()
        steps = len(self.train_longer(batches, REPEATED_STEPS))
        after = self._losses_with_noise()
        self.reset()
        return before, after, steps

    def _losses_with_noise(self) -> Numbers:
        """The losses of the first batch, with the random numbers of some steps."""
        drawn = range(LOOKS if self.base.drawn else 1)
        looks = [self.look(self.batch, step=step).losses for step in drawn]
        return {name: float(np.mean([losses[name] for losses in looks]))
                for name in self.run.optimizers}  # fmt: skip

    def changes_by_step_of(
        self,
        names: list[str],
        behind: Sequence[str] = (),
        draws: Sequence[int] = (0,),
        part: float = 1e-3,
    ) -> Numbers:
        """How a step against the gradients of some optimizers changes all losses.

        If the losses were straight, it would lower theirs by a `part` of the largest of all. Those
        `behind` are trained alone before, for some steps that lower their loss by at most a
        tenth each. Losses and gradients are means over the random numbers of the steps `draws`.
        """
        self._train_alone(behind, draws)
        before = [self.look(self.batch, step=step) for step in draws]
        largest = max(abs(loss) for look in before for loss in look.losses.values())
        self._descend(names, before, part * max(largest, 1e-3))  # a visible change of any loss
        after = [self.look(self.batch, step=step) for step in draws]
        self.reset()
        return _mean_changes(before, after)

    def changes_by_training_alone(self, names: list[str], draws: Sequence[int] = (0,)) -> Numbers:
        """How all losses change when some optimizers are trained alone, as those `behind` above."""
        before = [self.look(self.batch, step=step) for step in draws]
        self._train_alone(names, draws)
        after = [self.look(self.batch, step=step) for step in draws]
        self.reset()
        return _mean_changes(before, after)

    def _train_alone(self, names: Sequence[str], draws: Sequence[int]) -> None:
        for i in range(ALONE if names else 0):
            now = self.look(self.batch, step=draws[i % len(draws)])
            self._descend(names, [now], 0.1 * sum(abs(now.losses[name]) for name in names))

    def _descend(self, names: Sequence[str], looks: Sequence[Look], by: float) -> None:
        """Move weights of optimizers against their mean gradients, to lower the loss by so much."""
        gradients = {
            name: [np.mean(each, axis=0)
                   for each in zip(*(look.gradients[name] for look in looks), strict=True)]
            for name in names
        }  # fmt: skip
        norm = sum(float(np.sum(np.square(g))) for g in tf.nest.flatten(gradients))
        for name in names:
            for v, gradient in zip(self.run.variables_of(name), gradients[name], strict=True):
                v.assign_sub(by / (norm or 1.0) * gradient)

    @cached_property
    def fresh(self) -> tuple[list[Numbers], Numbers, Numbers | None]:
        """Losses on new batches; then on the first batch, also with labels of other examples.

        A warm-up ends after half of the steps: a longer one would teach nothing.
        """
        times = {
            o: longer_than(o, FRESH_STEPS, self.updates_of_run(name), self.rates_of_run[o])
            for name, o in self.inner_optimizers
        }
        faster = {o: number for o, number in times.items() if number > 1}
        try:
            with with_short_warm_ups(self.one[1], faster) as steps:
                batches = self.batches.dataset(0, FRESH_STEPS)
                losses = self.train_longer(batches, FRESH_STEPS, steps)
            self._trained_on_fresh = {id(v): v.numpy() for v in self.variables(self.one)}
            matrices = [v for v in self.run.trainable_variables if len(v.shape) > 1]
            self._has_moved = not matrices or any(
                relative_difference(self.initial[id(v)], v) > LITTLE for v in matrices
            )
            for metric in self.run.metrics.values():  # of this look only, not of earlier steps
                metric.reset_state()
            # Numbers drawn for each row, as in stochastic depth, are the same for all rows here.
            looks = LOOKS if self.base.drawn else 1
            self._after_training = [self.look(self.batch, step=step) for step in range(looks)]
            mixed, self.with_labels_of_others = None, self._after_training[0]
            if len(self.batch) > 2:
                self.with_labels_of_others = look = self.look(self.with_other_labels(self.batch))
                mixed = {name: look.losses[name] for name in self.run.optimizers}
            return losses, self._after_training[0].losses, mixed
        finally:
            self.reset()

    def with_other_labels(self, batch: Any) -> Any:
        """A batch of (1, rows, ...) in which each example has the labels of another one."""
        inputs, *labels, weights = batch
        by = tf.nest.flatten(weights)[0].shape[1] // 2
        return inputs, *tf.nest.map_structure(lambda t: tf.roll(t, by, axis=1), labels), weights

    @property
    def has_trained_enough(self) -> bool:
        """Whether all those steps were made, and moved weights; few or small ones teach nothing."""
        return len(self.fresh[0]) == FRESH_STEPS and self.has_moved

    @property
    def sees_rows_rarely(self) -> bool:
        """Whether those steps saw each example so seldom that none can be remembered."""
        return FRESH_STEPS * self.rows < SELDOM * self.batches.num_examples

    @property
    def has_moved(self) -> bool:
        """Whether those steps changed a matrix by more than a small part of its norm."""
        _ = self.fresh
        return self._has_moved

    @contextlib.contextmanager
    def trained_on_fresh(self) -> Iterator[None]:
        """The state after the steps on new batches, to which `reset` returns."""
        _ = self.fresh, self.evaluations
        initial, self.initial = self.initial, self._trained_on_fresh
        try:
            self.reset()
            yield
        finally:
            self.initial = initial
            self.reset()

    @property
    def learns_labels(self) -> bool | None:
        """Whether the loss is lower than with the labels of other examples, after training.

        None if that can't be known.
        """
        _, right, mixed = self.fresh
        if not mixed or len(mixed) != 1 or self.rows < 4:
            return None
        ((name, of_others),) = mixed.items()
        return not is_slight(of_others - right[name], right[name] - self.total_regularization)

    @property
    def learns_no_labels(self) -> bool:
        """Whether it is known to be about as low."""
        return self.learns_labels is False

    @property
    def losses_get_no_labels(self) -> bool:
        """Whether loss functions get the same with the labels of other examples."""
        right, mixed = self.after_training.calls, self.with_labels_of_others.calls
        return bool(right) and all(np.array_equal(right[n][0], mixed[n][0]) for n in right)

    @property
    def terms_without_labels(self) -> list[str]:
        """Terms that are about as low with the labels of other examples, after training."""
        _, right, mixed = self.fresh
        if not mixed or self.rows < 4:
            return []
        gains = {name: self.with_labels_of_others.losses[name] - loss
                 for name, loss in right.items() if name in self.run.terms}  # fmt: skip
        return [name for name, gain in gains.items() if is_slight(gain, right[name])]

    @property
    def after_training(self) -> Look:
        """The first step, after some training."""
        return self.looks_after_training[0]

    @property
    def looks_after_training(self) -> list[Look]:
        """The same with the random numbers of other steps too, if a step draws any."""
        _ = self.fresh
        return self._after_training

    @property
    def calls_after_training(self) -> dict[str, list[tuple[Any, ...]]]:
        """The arguments of losses in each of these looks, see `calls_of`."""
        calls = [self.calls_of(look) for look in self.looks_after_training]
        return {name: [each[name] for each in calls] for name in calls[0]}

    def calls_of(self, look: Look) -> dict[str, tuple[Any, ...]]:
        """The calls of losses in a step: (labels, predictions, result).

        If it computes its losses by itself, the outputs of the model, and the labels as they are.
        """
        if look.calls or not look.outputs:
            return look.calls
        _, *parts, _ = self.batch
        labels = parts[0][0] if len(parts) == 1 and tf.is_tensor(parts[0]) else None
        (name,) = self.run.trained_models
        return {name: (labels, look.outputs[0], None)}


@contextlib.contextmanager
def _dtypes_kept() -> Iterator[None]:
    """Give numbers and layers made afterwards the dtypes of before."""
    floatx, policy = keras.config.floatx(), keras.config.dtype_policy()
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)


def _mean_changes(before: list[Look], after: list[Look]) -> Numbers:
    """How each loss changes, as a mean over some looks."""
    pairs = list(zip(before, after, strict=True))
    return {name: float(np.mean([b.losses[name] - a.losses[name] for a, b in pairs]))
            for name in before[0].losses}  # fmt: skip


def is_slight(gain: float, loss: float) -> bool:
    """Whether the right labels hardly make a loss smaller; one without labels doesn't count."""
    return bool(gain) and gain < 0.02 * abs(loss)
