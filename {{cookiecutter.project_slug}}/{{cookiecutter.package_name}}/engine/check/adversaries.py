"""Relations of models that are trained against each other, as in a GAN."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from .findings import Finding, look, ok, relation, wrong
from .graph import norms_of_gradients
from .laboratory import Laboratory
from .runs import Failed

DRAWS = 16  # of random numbers, such as latents, which all rows share here
SHARED = 0.1  # of the fall of the generator's loss
JUDGES = {"discriminator", "critic"}  # words in names of models


@relation("adversaries", after="the same step again")
def adversaries(lab: Laboratory) -> Finding:
    """A step that lowers the generator's loss doesn't lower the discriminator's."""
    generators, judges = (
        [n for n in lab.run.optimizers if any(part in n.lower() for part in parts)]
        for parts in (("generator",), JUDGES)
    )
    if len(generators) != 1 or len(judges) != 1 or generators == judges:
        return ok("there are none")

    def gain_of_judge(behind: list[str]) -> float:
        changes = lab.changes_by_step_of(generators, behind, range(DRAWS if lab.base.drawn else 1))
        own, others = changes[generators[0]], changes[judges[0]]
        return others / own if own < 0 else -1.0

    # Both losses may fall as long as the discriminator has learned nothing. One that has learned
    # enough may have a loss of 0, by a hinge. With a penalty, its loss may fall, but not as much.
    before, after = gain_of_judge([]), gain_of_judge(judges)
    if before > SHARED and (after > SHARED or abs(after) < 1e-3):
        # A discriminator with further outputs, such as classes, shares some goals of the generator.
        return (look if _gives_several(lab, judges[0]) else wrong)(
            f"a step that lowers the loss of the {generators[0]} lowers that of the {judges[0]}",
            "both have the same goal: labels of real and generated examples are swapped in one of "
            "the losses",
            "the discriminator's labels are 1 for real and 0 for generated examples, the "
            "generator's are 1",
        )
    return ok()


@relation("train steps apart")
def train_steps_apart(lab: Laboratory) -> Finding:
    """Each train step has its own optimizer."""
    shared = _trained_by_several_steps(lab)
    if shared:
        return look(
            f"{' and '.join(shared)} both train all models with one optimizer",
            "each train step of adversaries undoes what the other one learns",
            "return a dict from create_optimizer, with one optimizer per model",
        )
    return ok()


@relation("noise on both sides", after="the same step again")
def noise_on_both_sides(lab: Laboratory) -> Finding:
    """A step that adds noise to real examples adds it to generated ones as well, or the reverse."""
    for step in lab.run.functions.train_steps:
        sides = _changed_at_random(lab, step)
        for side, other in (("real", "generated"), ("generated", "real")):
            if sides.get(side) and sides.get(other) is False:
                return wrong(
                    f"{step.__name__} changes {side} examples at random before "
                    f"{sides['judge']!r} sees them, and {other} examples not",
                    "the noise tells real from generated examples, so the generator learns nothing "
                    "of the data from it, or learns to make noise",
                    "change both in the same way",
                )
    return ok()


@relation("gradient penalty", after="the same step again")
def gradient_penalty(lab: Laboratory) -> Finding:
    """The norm of a gradient in a loss is that of a whole example, and of one example."""
    for name, axes, shape in norms_of_gradients(lab.traced.ops, lab.traced.ops_of_losses):
        are_images = len(shape) > 3  # at each point of a field, a norm may be intended
        whole = 0 in axes
        if not whole and not are_images:
            continue
        is_sure = len(lab.run.optimizers) > 1
        cause = (
            "this is one norm for the whole batch, so examples interact"
            if whole
            else "this is a norm for each pixel or row, and a penalty needs that of an example"
        )
        return (wrong if is_sure else look)(
            f"{name} takes the norm of a gradient of shape {shape} over the axes {axes}",
            cause,
            f"use the axes {[*range(1, len(shape))]}, or reshape the gradient to (batch, -1)",
        )
    return ok()


def _gives_several(lab: Laboratory, optimizer: str) -> bool:
    """Whether an optimizer trains a model with several outputs, or several numbers per output."""
    for model in lab.run.models_of(optimizer):
        outputs = tf.nest.flatten(getattr(model, "outputs", None) or [])
        if len(outputs) > 1 or any(len(t.shape) > 1 and t.shape[-1] != 1 for t in outputs):
            return True
    return False


def _changed_at_random(lab: Laboratory, step: Any) -> dict[str, Any]:
    """Which examples a step changes by random numbers before a discriminator sees them.

    Keys "real" and "generated", as far as the discriminator gets such examples: whether all of its
    calls with them get changed ones; and "judge", the name of the model. Nothing if it isn't clear.
    """
    models = lab.run.trained_models
    judges = [name for name in models if any(word in name.lower() for word in JUDGES)]
    images = tf.nest.flatten(lab.batch[0])
    if len(judges) != 1 or len(models) < 2 or len(images) != 1 or not lab.base.drawn:
        return {}
    judge, real = models[judges[0]], np.asarray(images[0][0], "f8")
    seen: list[list[tuple[str, np.ndarray, bool]]] = []
    for seed in (1, 2):
        try:
            calls = lab.calls(step, lab.run, lab.batch, models.values(), seed=seed)
        except Failed:
            return {}
        made = [
            np.asarray(call.made, "f8") for call in calls
            if call.of is not judge and tf.is_tensor(call.made) and call.made.shape == real.shape
        ]  # fmt: skip
        kinds = []
        for call in (call for call in calls if call.of is judge):
            given = [t for t in tf.nest.flatten(call.arguments) if np.shape(t) == real.shape]
            if len(given) != 1 or not made:
                return {}
            x = np.asarray(given[0], "f8")
            far = {"real": np.abs(x - real).mean(), "generated": min(
                np.abs(x - each).mean() for each in made
            )}  # fmt: skip
            kind = min(far, key=far.__getitem__)
            kinds.append((kind, x, bool(far[kind] > 1e-6)))
        seen.append(kinds)
    if [kind for kind, *_ in seen[0]] != [kind for kind, *_ in seen[1]]:
        return {}
    found: dict[str, Any] = {"judge": judges[0]}
    for (kind, x, is_changed), (_, y, _) in zip(*seen, strict=True):
        is_random = is_changed and not np.array_equal(x, y)
        if is_changed and not is_random:
            return {}  # scaled, cropped or mixed, which is something else
        found[kind] = found.get(kind, True) and is_random
    return found


def _trained_by_several_steps(lab: Laboratory) -> list[str]:
    """The names of train steps that share an optimizer, if it trains several models."""
    functions = lab.run.functions.train_steps
    for name, steps in lab.traced.steps_of.items():
        # One may occur several times: a critic is trained more often than its generator.
        distinct = dict.fromkeys(functions[i] for i in steps)
        if len(distinct) > 1 and len(lab.run.models_of(name)) > 1:
            return [function.__name__ for function in distinct]
    return []
