"""Why one replica and several give different numbers, judged by the numbers."""

from __future__ import annotations

from ..versions import untested_versions
from .numbers import Numbers, close

COARSE = 1e-2  # for ratios: a factor of 2 and not 1.9
SUMMED_LATER = (
    "gradients are changed before they are summed; clip or change them in process_gradients"
)


def explain(one: Numbers, several: Numbers, replicas: int, regularization: float) -> str:
    """The known fault, or untested versions, that make numbers differ with several replicas.

    Numbers are losses (their names hold "loss") and metrics; regularization is a sum over models.
    """
    fault = _fault(one, several, replicas, regularization)
    untested = untested_versions()
    return f"{fault}; {untested}" if untested else fault


def _fault(one: Numbers, several: Numbers, replicas: int, regularization: float) -> str:
    """The fault of the task that explains such numbers."""
    for name, a in one.items():
        b = several[name]
        if close(a, b):
            continue
        if "loss" not in name:
            is_scaled = close(b, a / replicas, COARSE) or close(b, a * replicas, COARSE)
            how = "depends on how the batch is split, as a mean over a replica's rows does"
            how = "is fed the scaled loss" if is_scaled else how
            return f"the metric {name} {how}; feed it per-example values and weights"
        if regularization and close(b - a, (replicas - 1) * regularization, COARSE):
            return "regularization is counted once per replica; use tf.nn.scale_regularization_loss"
        if regularization and close(b - a, (1 / replicas - 1) * regularization, COARSE):
            return "regularization is divided by the number of replicas twice; divide it once"
        if close(b, replicas * a, COARSE):
            return (
                "the loss is averaged twice, or over the replica's own batch, or multiplied by the "
                "number of replicas: divide it only by replica.global_count"
            )
        rest = a - regularization
        if regularization and close(b - a, (replicas - 1) * rest, COARSE):
            return (
                "the loss without regularization is averaged over the replica's own batch: "
                "use replica.global_count"
            )
        if close(b, a / replicas, COARSE) or close(b - a, (1 / replicas - 1) * rest, COARSE):
            return (
                "the loss is divided by the number of replicas, which replica.global_count already "
                "includes; divide it only by that"
            )
        return (
            f"{name} depends on how the batch is split: through statistics of one replica's batch, "
            "its negatives alone (replica.all_gather has those of all), random numbers, or "
            "another denominator than replica.global_count"
        )
    return SUMMED_LATER
