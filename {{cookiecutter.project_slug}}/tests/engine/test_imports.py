"""The engine gets what it needs as arguments: it imports neither your task nor its flags."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMAND = "from importlinter.cli import lint_imports_command as lint; lint(['--no-cache'])"


def test_imports_keep_the_contract_in_pyproject_toml() -> None:
    command = [sys.executable, "-c", COMMAND]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
