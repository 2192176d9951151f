"""The run directory: made, found again, locked; configuration, model summary and results."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any
from unittest import mock

import keras

from . import link
from .command_line import FIRST_LINE, LAST_LINE, flag_of, flags_in, read_flags
from .errors import AGAIN, UsageError, reason_of
from .files import delete_unfinished, replace_file, to_json, writing
from .locks import acquire, is_locked, lock_of
from .output import say
from .run_files import STARTED, UNFINISHED, has_checkpoint, is_finished
from .workers import PAUSE_SECS, Workers

WIDTH = 100  # characters of the summary of a model
LOCK_SECS = 120.0  # a file server keeps a lock of a host that was lost, NFSv4 for 90 seconds
NOT_A_RUN = {  # but what isn't there, or is somebody else's; of other errors the disk is the cause
    *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
    *(errno.EACCES, errno.EPERM),
}
# Flags that change how a run is made, not what comes out.
MAY_DIFFER = {
    *("strategy", "virtual_replicas", "jit", "steps_per_call", "log_every_steps"),
    *("max_stop_secs", "start_timeout", "hang_timeout", "resume", "quiet"),
    *("log_graph", "profile"),
    *("keep_checkpoints", "save_every_epochs", "save_every_steps", "save_every_secs"),
    "runs",  # a directory may be moved
}


class RunDirectory:
    """`runs/<time>-<name>/`.

    Args:
        path: the directory.
        is_new: whether it holds no checkpoint and no history yet.
        is_chief: whether this process writes to it; of several workers, the chief does.
    """

    def __init__(self, path: Path, *, is_new: bool = False, is_chief: bool = True) -> None:
        self.path = path
        self.is_new = is_new
        self.is_chief = is_chief
        self._lock_file = lock_of(path)

    @classmethod
    def open(
        cls,
        runs: Path,
        name: str,
        resumed: Path | None,
        config: str,
        workers: Workers | None = None,
    ) -> RunDirectory:
        """A new directory, or the one that is resumed; locked either way.

        Args:
            runs: where run directories are made.
            name: the last part of a new one's name.
            resumed: what `find_resumed` returned.
            config: the flags as YAML, for config.yaml.
            workers: who train together; the chief opens it and the others are told.

        Raises:
            UsageError: it can't be written to, another process trains in it, or a worker doesn't
                see it.
        """
        opened: list[RunDirectory] = []
        is_auto = flags_in(config).get("resume") == "auto"

        def open_it() -> str:
            opened.append(cls(resumed or _make(runs, name), is_new=resumed is None))
            opened[0]._lock()
            if is_auto and resumed and is_finished(resumed):
                raise UsageError(f"{resumed} has been finished by another process meanwhile.")
            if resumed is None:
                opened[0].write_config(config)
            return str(opened[0].path)

        try:
            if resumed and (link.current or is_auto):
                _wait_for_lock(resumed, workers)
            path = Path(workers.on_chief(open_it) if workers else open_it())
            if not opened:
                opened.append(cls(path, is_new=resumed is None, is_chief=False))
            if workers:
                workers.require_shared(path)
        except BaseException as error:  # a signal too
            for directory in opened:
                directory.__exit__(type(error))
            raise
        return opened[0]

    def __enter__(self) -> RunDirectory:
        """Nothing more: `open` has locked it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Unlock it; delete it if the run failed before there was anything to keep."""
        with contextlib.suppress(OSError):  # of a lost mount: it must not hide how the run ended
            self._lock_file.release()
        if not self.is_chief:
            return
        # Not asked of the disk: one that fails for a moment must not cost the checkpoints.
        if kind is not None and self.is_new:
            shutil.rmtree(self.path, ignore_errors=True)

    def _lock(self) -> None:
        try:
            acquire(self._lock_file, "process")
        except OSError as error:
            raise UsageError(f"{self.path} can't be written to: {error.strerror}.") from error
        delete_unfinished(self.path)

    def write_config(self, config: str) -> None:
        """The flags as config.yaml, as they turned out: "auto" replaced by what was chosen.

        Those of a resumed run replace those of the steps so far, and it says which differ.
        """
        with contextlib.suppress(ValueError):  # there is none, or it was damaged
            if different := self._other_flags(config, MAY_DIFFER | {"name"}):
                say(f"config.yaml has the flags from here on, other than so far: {different}")
        self._write("config.yaml", FIRST_LINE + config + LAST_LINE)

    def require_config(self, config: str) -> None:
        """Keep config.yaml, where no step is left to make with other flags.

        What is still to do may need some, such as a test whose data has moved.

        Raises:
            UsageError: nothing is, and one differs of those that decide what comes out.
        """
        different = self._other_flags(config, MAY_DIFFER | {"epochs", "steps", "name"})
        if different and (self.path / "results.json").exists():
            raise UsageError(
                f"{self.path} is finished, and no step was made with {different}; start a new run "
                "with other flags, or, unless a callback has stopped it, give more --steps."
            )
        if different:
            say(f"config.yaml keeps the flags of the steps: {different}")

    def _other_flags(self, config: str, may_differ: set[str]) -> str:
        """How flags differ from those of config.yaml; "" if they don't.

        Raises:
            ValueError: it can't be read.
        """
        before, now = read_flags(self.path / "config.yaml"), flags_in(config)
        # A flag that the project had not then has its default now.
        both = {name: value for name, value in before.items() if name in now}
        return _differences(both, {name: now[name] for name in both}, may_differ)

    def write_models(self, models: dict[str, keras.Model]) -> None:
        """The summary of every model as model.txt."""
        lines: list[str] = []
        # Keras cuts it off at the width of the terminal, which a batch job has not (3.15).
        with mock.patch.dict(os.environ, COLUMNS=str(WIDTH)):
            for name, model in models.items():
                lines += [f"{name}:"] * (len(models) > 1)
                model.summary(print_fn=lines.append, line_length=WIDTH)
        self._write("model.txt", "\n".join(lines) + "\n")

    def forget_results(self) -> None:
        """Be unfinished again: what a finished run has written is wrong once it goes on.

        Raises:
            UsageError: it can't be deleted.
        """
        self._forget("results.json", "report.html", UNFINISHED)

    def write_results(self, results: dict[str, Any]) -> None:
        """results.json, the first file of the end of a run; report.html becomes the last.

        Raises:
            UsageError: it can't be written.
        """
        if self.is_chief:
            self._forget("report.html", UNFINISHED)  # of the unfinished run, by `report`
        self._write("results.json", to_json(results) + "\n")

    def _forget(self, *names: str) -> None:
        for file in map(self.path.joinpath, names):
            with writing(file):
                file.unlink(missing_ok=True)

    def _write(self, name: str, content: str) -> None:
        if self.is_chief:
            replace_file(self.path / name, content)


def find_resumed(
    runs: Path, resume: str, config: str, workers: Workers | None = None, *, defaults: str = ""
) -> Path | None:
    """The run directory that --resume means, None for a new one.

    Args:
        runs: where run directories are made.
        resume: a run directory; "auto" for the latest unfinished one of the same flags; "" for a
            new one.
        config: the flags as YAML.
        workers: who train together; the chief looks for it, and the others must see it.
        defaults: of all flags as YAML, which a run has of flags that the project had not then.

    Raises:
        UsageError: one of them doesn't.
    """

    def find() -> str:
        return str(_find_unfinished(runs, config, defaults) or "") if resume == "auto" else resume

    found = workers.on_chief(find) if workers else find()
    if found and workers:
        workers.require_shared(Path(found))
    return Path(found) if found else None


def _make(runs: Path, name: str) -> Path:
    """A new run directory, never one that exists.

    Raises:
        UsageError: it can't be made.
    """
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # not a directory, though something has the name
        raise UsageError(
            f"{error.filename} is a file, or a link that leads nowhere; give another --runs."
        ) from error
    except OSError as error:
        raise UsageError(f"{runs} can't be made: {error.strerror}.") from error
    first = runs / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{name}"
    for number in itertools.count(1):
        path = first if number == 1 else first.with_name(f"{first.name}-{number}")
        try:
            path.mkdir()
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise UsageError(f"{path} can't be made: {error.strerror}.") from error
    raise AssertionError  # the loop has no end


def _wait_for_lock(run: Path, workers: Workers | None) -> None:
    """Wait while a run is locked, as long as a file server may keep the lock of a lost host."""
    end = time.monotonic() + LOCK_SECS

    def is_kept() -> str:
        with contextlib.suppress(OSError):  # which `_lock` says
            if time.monotonic() < end and is_locked(run):
                return "kept"
        return ""

    on_chief = workers.on_chief if workers else lambda function: function()
    if on_chief(is_kept):
        say(f"{run} is locked, maybe by a host that was lost: waits up to {LOCK_SECS:g} s")
    while on_chief(is_kept):  # in rounds, so that no worker seems to hang
        time.sleep(PAUSE_SECS)


def _find_unfinished(runs: Path, config: str, defaults: str) -> Path | None:
    """The latest run of the same configuration that has a checkpoint but not all of its end.

    A directory that was renamed, or is a copy such as "...-backup", only if there is no other.
    Without one, says by which flags the latest unfinished run differs.

    Raises:
        UsageError: the disk fails, or `runs` can't be read.
    """
    now, said = flags_in(config), ""
    made = re.compile(rf"{STARTED.pattern}{re.escape(str(now.get('name')))}(-\d+)?")
    try:
        found = sorted(runs.iterdir(), key=lambda run: (bool(made.fullmatch(run.name)), run))[::-1]
    except (FileNotFoundError, NotADirectoryError):
        found = []
    except OSError as error:
        raise UsageError(f"{runs} can't be read: {error.strerror}.") from error
    for run in found:
        started = False
        try:
            started = has_checkpoint(run)
            before = flags_in(defaults) | read_flags(run / "config.yaml")
        except (OSError, ValueError) as error:  # nobody's, or no longer a run's
            cause = error.__cause__ or error
            if isinstance(cause, OSError) and cause.errno not in NOT_A_RUN:
                # It may be the one: a new run would begin in its place.
                raise UsageError(f"{run} can't be read: {reason_of(cause)}; {AGAIN}") from error
            if started:
                say(f"{run} is passed over: {error}")
            continue
        if not started or is_finished(run):
            continue
        different = _differences(before, now, MAY_DIFFER)
        if not different:
            return run
        said = said or f"{run} is unfinished, but has other flags: {different}"
    if said:
        say(said)
    return None


def _differences(before: dict[str, Any], now: dict[str, Any], may_differ: set[str]) -> str:
    return ", ".join(
        f"{flag_of(name)} ({before.get(name)}, now {now.get(name)})"
        for name in {**before, **now}
        if before.get(name) != now.get(name) and name not in may_differ
    )
