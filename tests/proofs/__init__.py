"""The proofs: each module measures one claim and makes one page of docs/.

In tests/: python -m proofs [NAME ...]

A module has a function `make(short: bool) -> Page`. The short form takes a small sample of the
measurements; `nox -s test` runs it on every change.
"""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# These need programs of Debian, such as Slurm and Chromium; made only where they are named.
WITH_PROGRAMS = ("cluster", "screenshots")
NAMES = (
    "parity", "mutations", "blind_faults", "false_alarms", "unusual_tasks", "reliability",
    "worker_kills", "starters", "pictures",
)  # fmt: skip


class Page(NamedTuple):
    """What a proof gives."""

    text: str  # Markdown
    wrong: list[str]  # the measurements that are not as they must be; empty: the claim holds
