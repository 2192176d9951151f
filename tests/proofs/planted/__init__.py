"""Faults as owners make them, and correct tasks that look like faults.

A fault is silent: the project imports, and its first steps run. `check` is developed on half of
them and judged by the other half, which is drawn at random from each kind.
"""

from __future__ import annotations

import random

from . import (
    blind_1,
    blind_2,
    blind_3,
    blind_4,
    blind_5,
    blind_6,
    blind_7,
    blind_8,
    blind_9,
    blind_10,
    blind_11,
    blind_12,
    blind_13,
    blind_14,
    blind_15,
    blind_16,
    blind_17,
    blind_18,
    blind_19,
    blind_20,
    blind_21,
    blind_22,
    blind_23,
    blind_24,
    blind_25,
    blind_26,
    blind_27,
    blind_28,
    blind_29,
    blind_30,
    blind_31,
    blind_32,
    blind_33,
    blind_34,
    blind_35,
    blind_36,
    blind_37,
    blind_38,
    blind_39,
    blind_40,
    blind_41,
    blind_42,
    blind_43,
    blind_44,
    blind_45,
    blind_46,
    blind_47,
    blind_48,
    blind_49,
    blind_50,
    blind_51,
    blind_52,
    blind_53,
    data,
    losses,
    models,
    tasks,
    training,
)
from .edits import Change, Edit, Fault
from .fresh import FAULTS as FRESH
from .unseen import FAULTS as UNSEEN
from .unseen import UNSEEN_TASKS
from .unusual import UNUSUAL

SEED = 20_261

FAULTS = (*losses.FAULTS, *data.FAULTS, *models.FAULTS, *training.FAULTS)
EXAMINED = (
    blind_1,
    blind_2,
    blind_3,
    blind_4,
    blind_5,
    blind_6,
    blind_7,
    blind_8,
    blind_9,
    blind_10,
    blind_11,
    blind_12,
    blind_13,
    blind_14,
    blind_15,
    blind_16,
    blind_17,
    blind_18,
    blind_19,
    blind_20,
    blind_21,
    blind_22,
    blind_23,
    blind_24,
    blind_25,
    blind_26,
    blind_27,
    blind_28,
    blind_29,
    blind_30,
    blind_31,
    blind_32,
    blind_33,
    blind_34,
    blind_35,
    blind_36,
    blind_37,
    blind_38,
    blind_39,
    blind_40,
    blind_41,
    blind_42,
    blind_43,
    blind_44,
    blind_45,
    blind_46,
    blind_47,
    blind_48,
    blind_49,
    blind_50,
    blind_51,
    blind_52,
    blind_53,
)
BLIND = tuple(fault for each in EXAMINED for fault in each.FAULTS)
TASKS = (
    *UNUSUAL,
    *tasks.TASKS,
    *UNSEEN_TASKS,
    *(task for each in EXAMINED for task in each.TASKS),
)


def _split() -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
    """Halves of the faults, of each kind as many; which half gets an odd one alternates."""
    generator = random.Random(SEED)
    halves: tuple[list[Fault], list[Fault]] = ([], [])
    first = 0
    for kind in dict.fromkeys(fault.kind for fault in FAULTS):
        faults = [fault for fault in FAULTS if fault.kind == kind]
        generator.shuffle(faults)
        faults.sort(key=lambda fault: fault.starter)  # each starter in both halves
        for i, fault in enumerate(faults):
            halves[(first + i) % 2].append(fault)
        first = (first + len(faults)) % 2
    return tuple(halves[0]), tuple(halves[1])


DEVELOPMENT, HELD_OUT = _split()

__all__ = [
    "BLIND",
    "DEVELOPMENT",
    "FAULTS",
    "FRESH",
    "HELD_OUT",
    "TASKS",
    "UNSEEN",
    "UNSEEN_TASKS",
    "UNUSUAL",
    "Change",
    "Edit",
    "Fault",
]
