"""Stands where the template's hook puts the task, and says what is wrong if it didn't run."""

import sys

sys.stderr.write(
    "error: this project has no task/, since cookiecutter's hooks didn't run; render it again "
    "with --accept-hooks yes.\n"
)
raise SystemExit(2)
