"""What works as it is, for every task."""

import sys

if sys.platform == "win32":  # it has neither the signals nor the forks of interrupts.py and link.py
    sys.stderr.write("error: Windows isn't supported: use its Linux subsystem, WSL 2.\n")
    raise SystemExit(2)
