"""A Slurm of its own on 127.0.0.1: nodes that are all this machine, under one directory.

It needs root and Debian's slurm-wlm and munge, and no systemd. Every daemon is a child of this
process and is ended with it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
START_SECS = 30.0
STOP_SECS = 10.0

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={directory}/munge.socket,cred_expire=5
# Listen on the loopback interface only.
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
GresTypes=gpu
KillWait={kill_wait}
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=sched_interval=2,batch_sched_delay=1
StateSaveLocation={directory}/state
SlurmdSpoolDir={directory}/spool/%n
SlurmctldPidFile={directory}/slurmctld.pid
SlurmdPidFile={directory}/slurmd.%n.pid
SlurmctldLogFile={directory}/slurmctld.log
SlurmdLogFile={directory}/slurmd.%n.log
{nodes}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime={grace} State=UP
PartitionName=high Nodes=ALL PriorityTier=10 State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=4 RealMemory=8000 Gres=gpu:4"
)


def missing() -> str:
    """Why Slurm can't be started here; empty if it can."""
    if absent := [name for name in PROGRAMS if not shutil.which(name)]:
        return f"no {', '.join(absent)} here: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "Slurm's daemons must be started as root"


class Slurm(contextlib.AbstractContextManager["Slurm"]):
    """The daemons, while it is entered.

    Args:
        directory: for all their files; its path must be short, since it holds a socket.
        nodes: their names; those that run more than their batch scripts must lead to this machine.
        grace: GraceTime of the preemptible partition `low`, seconds.
        kill_wait: KillWait, seconds between SIGTERM and SIGKILL.
    """

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[str] = ("127.0.0.1", "127.0.0.2", "127.0.0.3"),
        *,
        grace: int = 20,
        kill_wait: int = 10,
    ) -> None:
        self.directory = directory
        self.environ = {**os.environ, "SLURM_CONF": str(directory / "slurm.conf")}
        self._nodes = list(nodes)
        self._grace, self._kill_wait = grace, kill_wait
        self._daemons: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slurm:
        """Start it; it takes orders when this returns.

        Raises:
            RuntimeError: it doesn't.
        """
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all jobs and daemons."""
        with contextlib.suppress(subprocess.SubprocessError):
            self.call("scancel", "--user=root")
            self._until(lambda: not self.call("squeue", "--noheader"), STOP_SECS)
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self._daemons):
            try:
                daemon.wait(STOP_SECS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()

    def call(self, *command: str | Path, cwd: Path | None = None) -> str:
        """What a command of Slurm prints.

        Raises:
            CalledProcessError: it failed.
        """
        return subprocess.run(
            [str(part) for part in command],
            cwd=cwd, env=self.environ, check=True, timeout=60, stdout=subprocess.PIPE, text=True,
        ).stdout  # fmt: skip

    def submit(self, *arguments: str | Path, cwd: Path) -> str:
        """The id of a new job."""
        return self.call("sbatch", "--parsable", *arguments, cwd=cwd).strip()

    def job(self, job: str) -> dict[str, str]:
        """What Slurm knows of a job."""
        line = self.call("scontrol", "--oneliner", "show", "job", job)
        return dict(part.partition("=")[::2] for part in line.split() if "=" in part)

    def _start(self) -> None:
        for folder in ("state", "spool"):
            (self.directory / folder).mkdir(parents=True)
        self.directory.chmod(0o755)
        key, sockets = self.directory / "munge.key", self.directory / "munge.socket"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        names = ("munged", "munge.seed", "munge.pid", "munge.log")
        _, seed, pid, log = (self.directory / name for name in names)
        # --force: the directory may belong to another user than the daemon's.
        self._daemon(
            *("munged", "--foreground", "--force", f"--socket={sockets}", f"--key-file={key}"),
            *(f"--seed-file={seed}", f"--pid-file={pid}", f"--log-file={log}", "--num-threads=2"),
        )
        self._until(sockets.exists, START_SECS)
        host, (port, *ports) = socket.gethostname(), _free_ports(1 + len(self._nodes))
        nodes = [
            NODE.format(name=name, host=host, port=port)
            for name, port in zip(self._nodes, ports, strict=True)
        ]
        for number in range(4):  # no GPU, but a file for each, which is all that Slurm looks at
            (self.directory / f"gpu{number}").touch()
        gpus = f"Name=gpu File={self.directory}/gpu[0-3]\n"
        (self.directory / "gres.conf").write_text(gpus)
        (self.directory / "slurm.conf").write_text(
            CONFIG.format(
                host=host, port=port, directory=self.directory, nodes="\n".join(nodes),
                grace=self._grace, kill_wait=self._kill_wait,
            )
        )  # fmt: skip
        self._daemon("slurmctld", "-D", "-c")
        for name in self._nodes:
            self._daemon("slurmd", "-D", "-N", name)
        self._until(self._is_up, START_SECS)

    def _is_up(self) -> bool:
        try:
            states = self.call("sinfo", "--noheader", "--Node", "--format=%T", "--partition=low")
        except subprocess.SubprocessError:
            return False
        return states.split() == ["idle"] * len(self._nodes)

    def _daemon(self, *command: str | Path) -> None:
        log = (self.directory / f"{command[0]}.{len(self._daemons)}.out").open("wb")
        with log:
            self._daemons.append(
                subprocess.Popen(
                    [str(part) for part in command],
                    env=self.environ, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                )
            )  # fmt: skip

    def _until(self, condition: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"Slurm isn't ready after {seconds:g} s; see {self.directory}")
            time.sleep(0.1)


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for sock in sockets:
            sock.bind(("127.0.0.1", 0))
        return [int(sock.getsockname()[1]) for sock in sockets]
