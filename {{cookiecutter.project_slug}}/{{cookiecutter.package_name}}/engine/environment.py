"""For results.json: package versions, git commit, machine."""

from __future__ import annotations

import ast
import contextlib
import os
import platform
import subprocess
import zlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from .causes import PROJECT, TASK
from .rendezvous import hashes_of_code

GIT_SECS = 10.0  # for an answer of git; without it, the commit is unknown


def environment() -> dict[str, dict[str, Any]]:
    """For results.json: "versions", "git" (its commit is None without git) and "machine".

    To be called at the start of a run, since files may be edited while it goes on.
    """
    return {
        "versions": {
            **_versions(),
            # Where git says nothing, or files had changed since the commit.
            "code": f"{zlib.crc32(''.join(hashes_of_code().values()).encode()):08x}",
        },
        "git": _commit(),
        "machine": {
            "platform": platform.platform(),
            "cpus": os.cpu_count(),
            "gpus": len(tf.config.list_physical_devices("GPU")),
        },
    }


def made_by() -> dict[str, str]:
    """What a model's outputs depend on beside its weights: versions, and the code of the task.

    Of the code without comments; Python's own release decides how it is read.
    """
    trees = []
    for file in sorted(TASK.glob("*.py")):
        with contextlib.suppress(OSError, SyntaxError):  # what an editor has left there
            trees.append(ast.dump(ast.parse(file.read_bytes())))
    versions = _versions()
    release = versions["python"].rpartition(".")[0]
    code = f"{zlib.crc32(''.join(trees).encode()):08x}"
    return versions | {f"code of the task (Python {release})": code}


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "numpy": np.__version__,
    }


def what_changed(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Which versions, and which commit, aren't those of an earlier process; or nothing."""
    facts = [{**e["versions"], "commit": str(e["git"]["commit"])[:8]} for e in (before, now)]
    return differences(*facts)


def differences(before: dict[str, Any], now: dict[str, Any]) -> str:
    """What of `now` was otherwise before, and how it was; or nothing."""
    # Texts, of which NaN has the same as another one.
    changed = [name for name in now if repr(before.get(name)) != repr(now[name])]
    return ", ".join(f"{name} {before.get(name)} (now {now[name]})" for name in changed)


def _commit() -> dict[str, Any]:
    """The commit of the project, and whether its files are as they were committed."""
    # In a repository that ignores the project, the commit says nothing about it.
    tracked = _git("ls-files", "--error-unmatch", __file__) is not None
    commit = _git("rev-parse", "--verify", "HEAD") if tracked else None
    changes = _git("status", "--porcelain", "--", ".") if commit else None
    return {"commit": commit, "clean": None if changes is None else not changes}


def _git(*arguments: str) -> str | None:
    """What git prints; None where that fails, or there is no git."""
    command = ["git", "-C", str(PROJECT), "--no-optional-locks", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=GIT_SECS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode(errors="replace").strip()
