"""Loads models from files, in the precision of the run; `load_frozen` for those never trained.

A run uses an auxiliary model and never trains it: a teacher, a network that compares pictures.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import keras

from .causes import message_of
from .errors import UsageError

PART = 2**24  # bytes of a file that are read at once
CONFIG = "config.json"  # in a .keras file: the architecture, with the precision of each layer


def load_frozen(file: str | Path) -> keras.Model:
    """An auxiliary model, to be returned by `create_model` beside the models that train.

    A step calls it as `run.models[name](..., training=False)`. It isn't trained, saved, exported or
    synchronized over the replicas, and needs no optimizer. A run can only be opened again while the
    content of the file is the same.

    Args:
        file: a `.keras` file; a relative path starts where the program was started.

    Raises:
        UsageError: the file is missing or can't be loaded.
    """
    model = load_in_precision(file)
    for layer in model._flatten_layers():  # setting what the outer one already is does nothing
        layer.trainable = False
    model.frozen_file = str(file)
    sha256 = hashlib.sha256()
    with Path(file).open("rb") as content:
        while part := content.read(PART):
            sha256.update(part)
    model.frozen_sha256 = sha256.hexdigest()
    return model


def load_in_precision(file: str | Path) -> keras.Model:
    """A model from a `.keras` file that computes in the precision of the run.

    `keras.models.load_model` keeps the precision that each layer was saved in, whatever --precision
    is (Keras 3.15). Where 16 bits were mixed with full precision, layers in full precision stay so.

    Raises:
        UsageError: the file is missing or can't be loaded.
    """
    try:
        with zipfile.ZipFile(file) as archive, tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / "model.keras"
            with zipfile.ZipFile(copy, "w") as changed:
                for name in archive.namelist():
                    with (
                        archive.open(name) as source,
                        changed.open(name, "w", force_zip64=True) as target,
                    ):
                        if name == CONFIG:
                            target.write(_in_precision(source.read()))
                        else:
                            shutil.copyfileobj(source, target, PART)
            return keras.models.load_model(copy, compile=False)
    except FileNotFoundError as error:
        raise UsageError(f"{file} is missing; create_model in task/model.py loads it.") from error
    except (ValueError, TypeError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise UsageError(
            f"{file} can't be loaded as a .keras file: {message_of(error)}."
        ) from error


def is_auxiliary(model: keras.Model) -> bool:
    """Whether `load_frozen` made this model."""
    return hasattr(model, "frozen_sha256")


def hashes(models: dict[str, keras.Model]) -> dict[str, str]:
    """The SHA-256 of the file of each auxiliary model, by the model's name."""
    return {name: m.frozen_sha256 for name, m in models.items() if is_auxiliary(m)}


def validate_hashes(models: dict[str, keras.Model], saved: dict[str, str]) -> None:
    """Compare the files with those that the run was trained with.

    Raises:
        UsageError: one of them has changed.
    """
    for name, now in hashes(models).items():
        if saved.get(name, now) != now:
            raise UsageError(
                f"The model {name!r} isn't the one that the run was trained with: "
                f"{models[name].frozen_file} has changed; put the old file back, or start a new "
                "run."
            )


def _in_precision(config: bytes) -> bytes:
    """A model's config.json with the precision of the run in each layer."""
    whole = json.loads(config)
    policies, inputs = [], []

    def find(part: Any) -> None:
        if isinstance(part, dict):
            if part.get("class_name") == "DTypePolicy":
                policies.append(part["config"])
            elif part.get("class_name") == "InputLayer":
                inputs.append(part["config"])
            part = list(part.values())
        if isinstance(part, list):
            for inner in part:
                find(inner)

    find(whole)
    is_mixed = any(policy["name"].startswith("mixed_") for policy in policies)
    for policy in policies:
        full = is_mixed and not policy["name"].startswith("mixed_")
        if "float" in policy["name"]:
            policy["name"] = keras.config.floatx() if full else keras.config.dtype_policy().name
    for layer in inputs:
        if "float" in layer["dtype"]:
            layer["dtype"] = keras.config.floatx()
    return json.dumps(whole).encode()
