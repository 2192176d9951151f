"""Two workers that mpirun starts on this machine; proofs/cluster does worse things to them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from . import project

MPIRUN = shutil.which("mpirun.openmpi")
ON_LOOPBACK = ["--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"]


@pytest.mark.quick
@pytest.mark.skipif(not MPIRUN, reason="no Open MPI here: apt-get install openmpi-bin")
def test_two_workers_that_mpirun_starts(tmp_path: Path) -> None:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [
            str(MPIRUN), "-np", "2", "--bind-to", "none", "--oversubscribe", *ON_LOOPBACK,
            sys.executable, "train.py", "--steps", "3", "--runs", str(tmp_path / "runs"),
        ],
        cwd=project, env={**os.environ, **root, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 replicas, because there are 2 workers by Open MPI" in done.stdout
    (results,) = (tmp_path / "runs").glob("*/results.json")
    assert json.loads(results.read_text())["replicas"] == 2
