"""Relations of models that are trained against each other, as in a GAN."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ..types import step_name
from .findings import Finding, look, ok, relation, wrong
from .graph import norms_of_gradients
from .laboratory import Laboratory
from .numbers import Numbers, named_leaves
from .runs import Call

DRAWS = 16  # of random numbers, such as latents, which all rows share here
SHARED, MUCH = 0.1, 0.5  # of the fall of the generator's loss
JUDGES = {"discriminator", "critic"}  # parts of names of models
SHORT = {"g": "generator", "gen": "generator", "d": "discriminator", "disc": "discriminator"}


@relation("adversaries", after="the same step again")
def adversaries(lab: Laboratory) -> Finding:
    """They have opposite goals, and judge generated examples by what these were made for."""
    names = {name: SHORT.get(name.lower(), name.lower()) for name in lab.run.optimizers}
    generators, judges = (
        [name for name, whole in names.items() if any(part in whole for part in parts)]
        for parts in (("generator",), JUDGES)
    )
    if len(generators) != 1 or len(judges) != 1 or generators == judges:
        return ok("not looked at: there are none")
    (generator,), (judge,) = generators, judges
    if _made_for_others(lab):
        return wrong(
            "one train step judges generated examples by the labels that the generator got, and "
            "another by other labels",
            "the discriminator learns of pairs that no generator is asked for",
            "give it the labels that the examples were generated for",
        )

    if parts := _paired_otherwise(lab, judge):
        part, trained, validated = parts
        return wrong(
            f"the {judge} gets {part} with {trained} in training, and with {validated} in "
            "validation",
            "real examples are judged by labels that aren't theirs, so it learns of no label",
            f"give it {validated} in the train step too",
        )

    def gain(of: str, by: str, changes: Numbers) -> float:
        return changes[of] / changes[by] if changes[by] < 0 else -1.0

    draws = range(DRAWS if lab.base.drawn else 1)
    # Both losses may fall as long as the discriminator has learned nothing. One that has learned
    # enough may have a loss of 0, by a hinge. With a penalty, its loss may fall, but not as much;
    # then the loss of the generator rises while the discriminator learns. With one target for real
    # and generated examples it falls a lot, even if both losses have a minimum, as at 0.9.
    before, after = (
        gain(judge, generator, lab.changes_by_step_of(generators, behind, draws))
        for behind in ([], judges)
    )
    gained = gain(generator, judge, lab.changes_by_training_alone(judges, draws))
    gains_by_judge = gained > (SHARED if after > 0 else MUCH)
    if before > SHARED and (after > SHARED or abs(after) < 1e-3 or gains_by_judge):
        # A discriminator with further outputs, such as classes, shares some goals of the generator.
        return (look if _gives_several(lab, judge) else wrong)(
            f"a step that lowers the loss of the {generator} lowers that of the {judge}",
            "both have the same goal: in one loss the labels of real and generated are swapped, or "
            "alike",
            "the discriminator's labels are 1 for real and 0 for generated examples, the "
            "generator's are 1",
        )
    return ok()


@relation("train steps apart")
def train_steps_apart(lab: Laboratory) -> Finding:
    """Each train step has its own optimizer."""
    for name, steps in lab.traced.steps_of.items():
        # One may occur several times: a critic is trained more often than its generator.
        distinct = dict.fromkeys(lab.run.functions.train_steps[i] for i in steps)
        if len(distinct) > 1 and len(lab.run.models_of(name)) > 1:
            return look(
                f"{' and '.join(map(step_name, distinct))} both train all models with one "
                "optimizer",
                "each train step of adversaries undoes what the other one learns",
                "return a dict from create_optimizer, with one optimizer per model",
            )
    return ok()


@relation("gradient penalty", after="the same step again")
def gradient_penalty(lab: Laboratory) -> Finding:
    """The norm of a gradient in a loss is that of a whole example, and of one example."""
    of_weights = {tuple(v.shape) for v in lab.run.trainable_variables}
    for name, axes, shape in norms_of_gradients(lab.traced.ops, lab.traced.ops_with_slope):
        if tuple(shape) in of_weights:
            continue  # by which a loss may be balanced with another
        if 0 not in axes and len(shape) < 4:
            continue  # at each point of a field, a norm may be intended
        is_sure = len(lab.run.optimizers) > 1 and not lab.declared_interacting
        return (wrong if is_sure else look)(
            f"{name} takes the norm of a gradient of shape {shape} over the axes {axes}",
            "this is one norm for the whole batch, so examples interact"
            if 0 in axes
            else "this is a norm for each pixel or row, and a penalty needs that of an example",
            f"use the axes {[*range(1, len(shape))]}, or reshape the gradient to (batch, -1)",
        )
    return ok()


def _made_for_others(lab: Laboratory) -> bool:
    """Whether a model gets what another has made with other arguments than that other one got.

    In one train step, where it gets the very same in another.
    """
    calls = [call for call in lab.calls_in_training if tf.is_tensor(call.made)]
    given = [[np.asarray(x) for x in tf.nest.flatten(call.arguments)] for call in calls]
    same: dict[int, list[bool]] = {}  # by the call that has made an argument
    for number, arrays in enumerate(given):
        for by in reversed(range(number)):
            rest = [x for x in arrays if not np.array_equal(x, calls[by].made)]
            if calls[by].of is not calls[number].of and len(rest) < len(arrays):
                same[by] = same.get(by, []) + _are_among(rest, given[by])
                break
    seen = list(filter(None, same.values()))
    return any(map(all, seen)) and not all(map(any, seen))


def _paired_otherwise(lab: Laboratory, judge: str) -> tuple[str, str, str] | None:
    """A part of the batch, what the judge gets with it in training, and what in validation."""
    if not lab.evaluated_splits:
        return None
    models = {model.name for model in lab.run.models_of(judge)}

    def given_with(calls: list[Call], batch: Any) -> dict[str, list[str]]:
        """The parts of the batch that a call gets together."""
        parts = {name: np.asarray(t[0]) for name, t in named_leaves(batch[:2])}
        found: dict[str, list[str]] = {}
        for call in calls:
            if call.of.name not in models:
                continue
            arrays = [np.asarray(x) for x in tf.nest.flatten(call.arguments)]
            names = [n for n, part in parts.items() if any(np.array_equal(part, x) for x in arrays)]
            for name in names:
                found.setdefault(name, []).extend(n for n in names if n != name)
        return found

    trained = given_with(lab.calls_in_training, lab.batch)
    validated = given_with(lab.calls_in_validation, lab.evaluation_batch)
    for name, parts in trained.items():
        others = validated.get(name, [])
        if parts and others and not {*parts} & {*others}:
            return name, parts[0], others[0]
    return None


def _are_among(arrays: list[np.ndarray], others: list[np.ndarray]) -> list[bool]:
    """Whether each array equals another one, of those that have any of its shape and dtype."""
    alike = [[o for o in others if (o.shape, o.dtype) == (x.shape, x.dtype)] for x in arrays]
    return [any(np.array_equal(x, o) for o in each)
            for x, each in zip(arrays, alike, strict=True) if each]  # fmt: skip


def _gives_several(lab: Laboratory, optimizer: str) -> bool:
    """Whether an optimizer trains a model with several outputs, or several numbers per output."""
    for model in lab.run.models_of(optimizer):
        outputs = tf.nest.flatten(getattr(model, "outputs", None) or [])
        if len(outputs) > 1 or any(len(t.shape) > 1 and t.shape[-1] != 1 for t in outputs):
            return True
    return False
