"""Import TensorFlow quickly, without its start-up notices. Imports no TensorFlow by itself."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from .errors import UsageError
from .output import say_on_terminal
from .versions import require_versions

# What TF 2.16 to 2.21 say at every start on a machine where nothing is wrong, some of it straight
# to fd 2.
NOISE = re.compile(
    r"All log messages before absl|oneDNN custom operations|cudart_stub|cuda_platform.*cuInit"
    r"|cpu_feature_guard|To enable the following instructions|computation_placer"
    r"|Unable to register cu\w+ factory|Could not find TensorRT|^\s*$"
)


@contextlib.contextmanager
def filtered_tf_import() -> Iterator[None]:
    """Hold back stderr while TensorFlow is imported, and show what isn't known noise.

    Meanwhile no garbage is looked for: nearly all that an import makes stays, and to search it
    takes a tenth of the time (TF 2.21).

    Raises:
        UsageError: the installed TensorFlow or Keras is too old, or Keras' settings are unusable.
    """
    require_versions()
    say_on_terminal("loading TensorFlow")
    # Errors alone: data that can't be read is one sentence, before which TensorFlow would warn with
    # the traceback of each of its threads (2.21).
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    collects = gc.isenabled()
    gc.disable()
    try:
        with _noise_held_back():
            _import_keras()
            yield
    finally:
        if collects:
            gc.enable()


def _import_keras() -> None:
    """With the same settings on all machines; task/ may choose others when it is imported.

    KERAS_BACKEND and ~/.keras/keras.json differ from machine to machine: a resumed run, or another
    worker, would train another model.
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"
    try:
        import keras
    except (ValueError, AssertionError) as error:  # the latter, without a text, by Keras 3.10
        raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        if raised_in.parts[-2:] != ("backend", "config.py"):  # which reads such a file
            raise
        file = Path(os.environ.get("KERAS_HOME", "~/.keras")) / "keras.json"
        why = f": {error}" * bool(str(error))
        raise UsageError(f"{file} can't be used{why}; mend it or delete it.") from error

    keras.config.set_image_data_format("channels_last")
    keras.config.set_epsilon(1e-7)


@contextlib.contextmanager
def _noise_held_back() -> Iterator[None]:
    sys.stderr.flush()
    try:
        held_back = tempfile.TemporaryFile()  # noqa: SIM115
    except OSError:  # no directory for it that can be written to: all is shown
        yield
        return
    with held_back:
        saved = os.dup(2)
        os.dup2(held_back.fileno(), 2)
        try:
            yield
            import tensorflow as tf

            tf.config.list_physical_devices()
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            held_back.seek(0)
            for line in held_back.read().decode(errors="replace").splitlines():
                if not NOISE.search(line):
                    print(line, file=sys.stderr)
