"""Run `check` on faults or correct tasks and print the table; writes no page.

In tests/:
    python -m proofs.planted [--half development|held-out|blind|all] [--only REGEX] [--raw DIR] [--tests]
    python -m proofs.planted --tasks [--only REGEX] [--raw DIR]

PROOFS_JOBS=1 runs one command at a time instead of one for each core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .. import false_alarms, mutations
from . import BLIND, DEVELOPMENT, FAULTS, HELD_OUT, TASKS
from .harness import judge, matching

HALVES = {
    "development": DEVELOPMENT,
    "held-out": HELD_OUT,
    "blind": BLIND,
    "all": FAULTS,
}


def main() -> int:
    """Print a table; the exit code is 1 if a task was accused, 0 for faults."""
    parser = argparse.ArgumentParser(
        prog="python -m proofs.planted",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--half", choices=HALVES, default="development")
    parser.add_argument("--tasks", action="store_true", help="correct tasks instead of faults")
    parser.add_argument("--only", metavar="REGEX", default="", help='of "starter: name (kind)"')
    parser.add_argument("--raw", metavar="DIR", type=Path, help="write every output there")
    parser.add_argument("--tests", action="store_true", help="the tests too, where check misses")
    arguments = parser.parse_args()
    if arguments.tasks:
        tasks = matching(TASKS, arguments.only)
        text, accused = false_alarms.table(tasks, raw=arguments.raw)
        print(f"\n{text}\n{len(tasks) - len(accused)} of {len(tasks)} not accused.")
        return int(bool(accused))
    faults = matching(HALVES[arguments.half], arguments.only)
    results = judge(faults, tests=arguments.tests, raw=arguments.raw)  # type: ignore[arg-type]
    print(f"\n{mutations.table(results)}\n{mutations.summary(results)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
