"""Make pages of docs/: python -m proofs [--short] [NAME ...], in the directory tests/."""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback

from . import NAMES, ROOT, WITH_PROGRAMS, Page


def main() -> int:
    """Make the pages; the exit code is 1 if a claim doesn't hold."""
    known = NAMES + WITH_PROGRAMS
    parser = argparse.ArgumentParser(prog="python -m proofs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    parser.add_argument(
        "--short", action="store_true", help="measure a small sample, print the page, write nothing"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"no such proof: {', '.join(sorted(unknown))}")
    failed = [name for name in arguments.names or NAMES if not _prove(name, arguments.short)]
    print(f"failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


def _prove(name: str, short: bool) -> bool:
    began = time.monotonic()
    try:
        page: Page = importlib.import_module(f"proofs.{name}").make(short)
    except Exception:  # the other pages are made all the same
        traceback.print_exc()
        return False
    if short:
        print(page.text)
    else:
        (ROOT / "docs" / f"{name.replace('_', '-')}.md").write_text(page.text, encoding="utf-8")
    minutes = (time.monotonic() - began) / 60
    print(f"{name}: {minutes:.1f} minutes", flush=True)
    for wrong in page.wrong:
        print(f"wrong: {wrong}", file=sys.stderr)
    return not page.wrong


if __name__ == "__main__":
    sys.exit(main())
