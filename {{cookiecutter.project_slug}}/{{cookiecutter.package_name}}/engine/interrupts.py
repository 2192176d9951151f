"""SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and Ctrl-C.

In training: finish the graph call, save, exit. Before and after it: end as an error does, so that
what is open is closed, but for SIGTERM to one of several workers, which ends it by itself. A second
one exits at once, and none disturbs a process that is exiting.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

AT_ONCE = 130
ONE_WISH_SECS = 0.5  # `timeout` and batch systems signal a process, and then its group
PIPE_BYTES = 1 << 16  # more than signals ever wait to be read
# The last three: a closed terminal or a dropped ssh connection, and a batch system before its time
# limit, as by `sbatch --signal=USR1@60`.
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]

# What a sweep sets for its runs: the number of the lock of the run's log, "" where there is none.
OF_SWEEP = "RUN_OF_SWEEP"

_lock_of_sweep = os.environ.pop(OF_SWEEP, None)  # what the run starts is no run of the sweep
# A sweep sends SIGTERM when it gets a signal, which its runs may have got themselves: batch systems
# signal all processes. So it is no second wish to a run that saves.
_repeated = set() if _lock_of_sweep is None else {signal.SIGTERM}
_pipes: set[int] = set()  # that tell a thread of signals
_ignored: dict[int, Any] = {}  # the handlers of signals that a process about to exit ignores
_masks = threading.local()


def _block() -> None:
    """Let signals wait while a process is forked: a new one would lose what comes at once."""
    _masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _forget_in_child() -> None:
    """Give a forked process the defaults, as of multiprocessing.Pool in a callback.

    It has the handlers and the pipe of its parent: it would survive the SIGTERM that ends a pool,
    and its parent would take that for a signal to itself.
    """
    if (pipe := signal.set_wakeup_fd(-1)) not in _pipes:
        signal.set_wakeup_fd(pipe)
    for number in SIGNALS:
        if _is_own(signal.getsignal(number)):
            is_interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
    _unblock()


def _unlock_in_child() -> None:
    """Let a forked process, which may outlive the run, not pass for it."""
    global _lock_of_sweep
    if _lock_of_sweep:
        with contextlib.suppress(OSError):
            os.close(int(_lock_of_sweep))
    _lock_of_sweep = None


os.register_at_fork(before=_block, after_in_parent=_unblock, after_in_child=_forget_in_child)
os.register_at_fork(after_in_child=_unlock_in_child)


class Signaled(SystemExit):
    """A signal ends this process outside of training."""


@contextlib.contextmanager
def ending_in_order(code: int, *, trains: bool) -> Iterator[None]:
    """End by a signal with a sentence and `code`, not silently by the signal itself.

    Ctrl-C raises KeyboardInterrupt, as ever; a second signal, if it isn't the same wish, exits at
    once, without tracebacks from what was being closed.

    Args:
        code: the exit code.
        trains: whether something may have been saved to continue from.
    """
    received = 0.0

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal received
        if received:
            if time.monotonic() - received > ONE_WISH_SECS:
                exit_at_once()
            return
        received = time.monotonic()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.stderr.write(
            f"interrupted by {signal.Signals(number).name}; start the same command again"
            f"{'; --resume auto continues from the last checkpoint, if there is one' * trains}\n"
        )
        raise Signaled(code)

    defaults = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: old for number in SIGNALS if (old := _handler(number)) in defaults}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            now = signal.getsignal(number)
            if now == signal.SIG_IGN or (received and now == end):
                _ignore(number, handler)  # or `Interrupts` does already
            elif now == end:
                signal.signal(number, handler)


def _ignore(number: int, handler: Any) -> None:
    """Ignore a signal in a process about to exit; `handler` is for one that doesn't."""
    _ignored[number] = handler
    signal.signal(number, signal.SIG_IGN)


def _handler(number: int) -> Any:
    """The handler of a signal, or the one before if a process about to exit ignores it.

    Then it didn't exit: `main` was called again.
    """
    handler = signal.getsignal(number)
    return _ignored.pop(number, handler) if handler == signal.SIG_IGN else handler


def _is_own(handler: Any) -> bool:
    """Whether it is a handler of this module."""
    return getattr(handler, "__module__", "") == __name__


def ignore_signals() -> None:
    """From here on let no launcher's signal change the exit code of a process that has done all.

    It would be started again, and begin another run. Ctrl-C still ends it.
    """
    for number in set(SIGNALS) - {signal.SIGINT}:
        signal.signal(number, signal.SIG_IGN)


def exit_at_once() -> NoReturn:
    """End this process, by a second signal."""
    with contextlib.suppress(OSError):
        os.write(2, b"error: ended at once by a second signal.\n")
    os._exit(AT_ONCE)


class Interrupts:
    """Watches for signals while it is entered; to be entered after the strategy is created.

    MultiWorkerMirroredStrategy swallows a SIGTERM whose handler was set before it (TF 2.21).

    Args:
        at_once: called in a thread by a second signal, before the process exits.
    """

    def __init__(self, at_once: Callable[[], None] = lambda: None) -> None:
        self.received = False
        self._at_once = at_once
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        """Take over the signals."""
        for number in SIGNALS:
            handler = _handler(number)
            # Ignored on purpose, as by nohup; or the task does something else then.
            of_task = handler != signal.SIG_DFL and not _is_own(handler)
            if handler != signal.SIG_IGN and not (of_task and number.name.startswith("SIGUSR")):
                signal.signal(number, self._note)
                self._before[number] = handler
        # Python runs handlers only between graph calls; bytes on this pipe come at once.
        reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        _pipes.add(self._writer)
        self._wakeup = signal.set_wakeup_fd(self._writer)
        threading.Thread(target=self._watch, args=(reader,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Give the signals back, or, when the process is about to exit, ignore further ones.

        It is under `ending_in_order`, and not where a notebook or a search calls `main` by itself.
        """
        signal.set_wakeup_fd(self._wakeup)
        _pipes.remove(self._writer)
        os.close(self._writer)
        in_order = any(_is_own(handler) for handler in self._before.values())
        for number, handler in self._before.items():
            if self.received and kind and in_order:
                _ignore(number, handler)
            else:
                signal.signal(number, handler)
        if self.received and not kind:  # too late for the loop: the test is still to come
            signal.raise_signal(self._number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received, self._number = True, number

    def _watch(self, reader: int) -> None:
        asked, heeded = False, set(self._before)
        while numbers := os.read(reader, PIPE_BYTES):
            if not heeded & set(numbers):
                continue
            if asked:
                self._at_once()
                exit_at_once()
            asked = True
            heeded -= _repeated
            # By what has come until then, not by its time: this thread may get none for a while.
            time.sleep(ONE_WISH_SECS)
            os.set_blocking(reader, False)
            with contextlib.suppress(BlockingIOError):
                os.read(reader, PIPE_BYTES)
            os.set_blocking(reader, True)
        os.close(reader)
