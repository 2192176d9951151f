"""The findings of a check, and the list of all relations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from .laboratory import Laboratory


NOT_LOOKED_AT = "not looked at"  # how what was seen begins where a task lacks that


class Finding(NamedTuple):
    """One line of the report."""

    verdict: Literal["ok", "look", "WRONG"]  # "look" is for what may be intended
    seen: str
    cause: str = ""  # the likely one
    fix: str = ""

    @property
    def was_looked_at(self) -> bool:
        """Whether the task has what the relation is about."""
        return not self.seen.startswith(NOT_LOOKED_AT)

    def __str__(self) -> str:
        """One sentence."""
        text = ": ".join(part for part in (self.seen, self.cause) if part)
        return f"{text}; {self.fix}" if self.fix else text


class Relation(NamedTuple):
    """Something that must not change when something irrelevant does."""

    observe: Callable[[Laboratory], Finding]
    after: str = ""  # a relation that must hold first; otherwise this one tells nothing
    exact: bool = False  # whether a fault must be seen in float64 too: it isn't rounding


Observe = Callable[["Laboratory"], Finding]
RELATIONS: dict[str, Relation] = {}  # by the name that `--only` takes


def relation(
    name: str, *, after: str = "", exact: bool = False, evaluates: bool = False
) -> Callable[[Observe], Observe]:
    """Add a function to the list; the first line of its docstring says what holds without faults.

    One that `evaluates` needs validation or test data.
    """

    def add(observe: Observe) -> Observe:
        @functools.wraps(observe)
        def observe_if_possible(lab: Laboratory) -> Finding:
            if evaluates and not lab.evaluated_splits:
                return ok(f"{NOT_LOOKED_AT}: there is neither validation nor test data")
            return observe(lab)

        RELATIONS[name] = Relation(observe_if_possible, after, exact)
        return observe

    return add


def ok(seen: str = "") -> Finding:
    """Nothing wrong."""
    return Finding("ok", seen)


def look(seen: str, cause: str = "", fix: str = "") -> Finding:
    """Something that is a fault in most tasks, but intended in others."""
    return Finding("look", seen, cause, fix)


def wrong(seen: str, cause: str = "", fix: str = "") -> Finding:
    """A fault."""
    return Finding("WRONG", seen, cause, fix)
