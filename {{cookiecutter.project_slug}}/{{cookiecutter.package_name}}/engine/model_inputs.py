"""The inputs of a model, and which of a dict it takes: Keras would feed the others in silence.

A model of a dict of inputs flattens the dict that it is given in the order of its keys, and pairs
that with its own inputs: of {numeric, patient, sex} a model of {numeric, sex} takes the patient
for the sex, and only warns of the structure (Keras 3.15).
"""

from __future__ import annotations

from typing import Any

import keras
from keras.src.backend.common.stateless_scope import get_stateless_scope  # nothing public tells it
from keras.src.models.functional import Functional

from .causes import current_place
from .errors import UsageError
from .inner_functions import StepScope


def input_of(model: keras.Model) -> Any:
    """The nest of a model's symbolic inputs; a Sequential has no `input` yet (Keras 3.15).

    Raises:
        UsageError: it is a subclass of keras.Model, which has none.
    """
    if not getattr(model, "inputs", None):
        raise UsageError(
            f"The model {model.name} has no symbolic inputs; make it with keras.Model(inputs, "
            "outputs) or keras.Sequential."
        )
    return model.inputs[0] if isinstance(model, keras.Sequential) else model.input


def taken_by(model: keras.Model, inputs: Any) -> Any:
    """The inputs without those that a model of a dict doesn't take; as they are for any other.

    For where no step of the task chooses among the inputs of an example.
    """
    wanted = getattr(model, "input", None)  # a subclass of keras.Model has none
    if isinstance(wanted, dict) and isinstance(inputs, dict) and wanted.keys() <= inputs.keys():
        return {name: inputs[name] for name in wanted}
    return inputs


def _compatible(self: keras.Model, inputs: Any) -> None:
    """What Keras does before it calls a model; in a step it refuses a dict of other keys.

    Raises:
        UsageError: the model takes a dict, and is given one of other keys.
    """
    COMPATIBLE(self, inputs)  # it says which inputs are missing, but not of a nested dict
    wanted, in_step = self.input, isinstance(get_stateless_scope(), StepScope)
    if in_step and isinstance(wanted, dict) and isinstance(inputs, dict):
        sides = {"has": inputs.keys() - wanted.keys(), "lacks": wanted.keys() - inputs.keys()}
        if differ := [f"{side} {_names(keys)}" for side, keys in sides.items() if keys]:
            raise UsageError(
                f"{current_place()}the model {self.name} takes a dict of {_names(wanted)}, and the "
                f"one that it is given {' and '.join(differ)}: Keras would feed one input as "
                "another; call it with {name: inputs[name] for name in run.model.input}."
            )


def _names(keys: Any) -> str:
    return ", ".join(sorted(map(repr, keys)))


# Here it fails before Keras wraps what is raised in words of its own (Keras 3.15).
COMPATIBLE = Functional._assert_input_compatibility
Functional._assert_input_compatibility = _compatible
