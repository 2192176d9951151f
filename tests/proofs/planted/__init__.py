"""Faults as owners make them, and correct tasks that look like faults.

A fault is silent: the project imports, and its first steps run. `check` is developed on half of
them and judged by the other half, which is drawn at random from each kind.
"""

from __future__ import annotations

import random

from . import (
    blind_34,
    blind_39,
    blind_44,
    blind_46,
    blind_47,
    blind_49,
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
from .unusual import UNUSUAL

SEED = 20_261

FAULTS = (*losses.FAULTS, *data.FAULTS, *models.FAULTS, *training.FAULTS)
EXAMINED = (
    blind_34,
    blind_39,
    blind_44,
    blind_46,
    blind_47,
    blind_49,
    blind_51,
    blind_52,
    blind_53,
)
BLIND = tuple(fault for each in EXAMINED for fault in each.FAULTS)
TASKS = (
    *UNUSUAL,
    *tasks.TASKS,
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
    "HELD_OUT",
    "TASKS",
    "UNUSUAL",
    "Change",
    "Edit",
    "Fault",
]
