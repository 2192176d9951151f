"""Look for silent faults in your own task: `python -m <package> check`.

A fault that raises no error changes a result that should have stayed the same. So each relation
(in `data.py`, `losses.py` and so on) changes something irrelevant, such as
the order of the rows or the number of replicas, and checks whether the result is the same. The
runs for that are in `runs.py`, and the facts derived from them in `laboratory.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from ..causes import cause_of

# The order of these imports is that of the relations in a report, in which a person would look:
# an early fault may explain later ones.
from . import (  # noqa: F401  # isort: skip
    data, axes, adapting, leaks, overlaps, scales, repeating, losses, balance, minima, codes,
    training, adversaries, layers, slips, learning, predictions, metrics, sequences, evaluation,
    modes, reading, resuming,
)  # fmt: skip
from .explain import explain
from .findings import NOT_LOOKED_AT, RELATIONS, Finding, Relation, look, ok, wrong
from .laboratory import Laboratory
from .numbers import relative_difference
from .runs import Created, Failed, Refused, one_and_two_replicas

__all__ = [
    "NOT_LOOKED_AT",
    "RELATIONS",
    "Created",
    "Finding",
    "Laboratory",
    "check",
    "explain",
    "one_and_two_replicas",
    "relative_difference",
]


def check(laboratory: Laboratory, names: Collection[str]) -> Iterator[tuple[str, Finding]]:
    """The name and the finding of each relation; a failing step is reported only once."""
    if "the same data in another process" in names:
        laboratory.made_again.start_process()  # runs during all other relations
    failed: set[str] = set()
    found: dict[str, Finding] = {}
    for name in names:
        after = RELATIONS[name].after
        try:
            for each in filter(None, (after, name)):
                if each not in found:
                    found[each] = _observe(laboratory, RELATIONS[each])
                if each == after and found[after].verdict != "ok":
                    break
            yield name, found[name] if each == name else ok(f"not looked at: see {after}")
        except Refused as failure:
            yield name, look(f"can't be looked at: {failure.args[1]}")
        except Failed as failure:
            claim, reason = failure.args
            if claim not in failed:
                failed.add(claim)
                yield claim, wrong(reason)
        except Exception as error:  # whatever an unusual task may raise in an observation
            is_of_loop = "symbolic" in str(error)  # a tensor inside tf.vectorized_map has no value
            if isinstance(error, NotImplementedError) and not is_of_loop:
                raise  # a part that the task doesn't have yet says so itself
            yield name, look(f"can't be looked at: {cause_of(error)}")


def _observe(laboratory: Laboratory, relation: Relation) -> Finding:
    """The finding; if it may be rounding, the one in float64, if the task runs in float64."""
    finding = relation.observe(laboratory)
    if finding.verdict != "ok" and relation.exact:
        with laboratory.in_float64() as exact, contextlib.suppress(Exception):
            if exact is not None:
                with exact.without_failing_metrics() as left_out:  # some take no float64
                    is_ok = relation.observe(exact).verdict == "ok"
                if is_ok and not any(name in str(finding) for name in left_out):
                    return ok("but for rounding")
    return finding
