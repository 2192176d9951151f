"""The findings of a check, and the list of all relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from .laboratory import Laboratory


NOT_LOOKED_AT = "not looked at"  # how what was seen begins where a task lacks that


class Finding(NamedTuple):
    """One line of the report.

    Attributes:
        verdict: "look" is for what may be intended.
        seen: what was observed.
        cause: the likely cause.
        fix: what to do about it.
    """

    verdict: Literal["ok", "look", "WRONG"]
    seen: str
    cause: str = ""
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
    """Something that must not change when something irrelevant does.

    Attributes:
        name: what `--only` takes.
        claim: what holds for a task without faults.
        observe: checks whether it does.
        after: a relation that must hold first; otherwise this one tells nothing.
        exact: whether a fault must be seen in float64 too, where it can't be rounding.
    """

    name: str
    claim: str
    observe: Callable[[Laboratory], Finding]
    after: str = ""
    exact: bool = False


Observe = Callable[["Laboratory"], Finding]
RELATIONS: dict[str, Relation] = {}


def relation(name: str, *, after: str = "", exact: bool = False) -> Callable[[Observe], Observe]:
    """Add a function to the list; the first line of its docstring is the claim."""

    def add(observe: Observe) -> Observe:
        claim = (observe.__doc__ or "").splitlines()[0].rstrip(".")
        RELATIONS[name] = Relation(name, claim, observe, after, exact)
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
