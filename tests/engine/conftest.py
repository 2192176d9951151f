"""Settings of all tests of the engine."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import HAS_TENSORFLOW

collect_ignore_glob = [] if HAS_TENSORFLOW else ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test as `environment`, and as `full` if it isn't marked `quick`."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("environment")
            if not item.get_closest_marker("quick"):
                item.add_marker("full")


@pytest.fixture(autouse=True)
def _signal_mask() -> Iterator[None]:
    """Unblock what a link has blocked: processes that other tests start would inherit it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.fixture
def handlers() -> Iterator[None]:
    """The handlers of a program in a terminal; gives those back that there were.

    What nohup or a shell's `&` starts ignores SIGHUP or SIGINT, and so do the tests in it.
    """
    from proof.engine.interrupts import SIGNALS, _ignored

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    _ignored.clear()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    """Compute in float64, where rounding can't hide a mistake."""
    import keras

    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
