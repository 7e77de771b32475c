"""Who writes to a branch: one living process at a time.

A lease names its holder so exactly that a dead one is told from a living one on the same machine, even after a reboot
or when the process number was given out again. In another container process numbers mean nothing: there the store says
who is alive. Another machine cannot reach a store on a disk of this one, so a lease that names it is left from an earlier
start under another name. On a network file system nothing can be told, so that holder counts as alive.
"""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.errors import BranchInUseError
from agent_kernel.repository.commits import address
from agent_kernel.repository.pointers import LEASES, Move, Pointers
from agent_kernel.storage.protocol import SupportsLiveness

if TYPE_CHECKING:
    from collections.abc import Iterator


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """A session in a process."""

    host: str
    boot: str  # changes when the machine starts anew
    pid: int
    started: str  # when the process began, in whatever units the system counts
    session: str = ""
    pids: str = ""  # the namespace of process numbers; "": an earlier release, or a system without any

    @classmethod
    def here(cls, session: str = "") -> Holder:
        """This process."""
        return cls(socket.gethostname(), boot_id(), os.getpid(), start_of(os.getpid()), session, pid_namespace())

    def is_alive(self, store: object = None) -> bool:
        """Whether the process may still be running. `store`: where it said so; without it, less can be told."""
        here = self.host == socket.gethostname()
        liveness = store if isinstance(store, SupportsLiveness) else None
        if self.boot != boot_id():
            return not here and not (liveness is not None and liveness.is_on_this_machine)
        if self.counts_as_here():
            return start_of(self.pid) == self.started != ""
        return not (self.pids and liveness is not None and liveness.is_held(self.number) is False)

    @property
    def number(self) -> int:
        """What stands for the process in a store: 62 bits."""
        text = f"{self.boot} {self.pids} {self.pid} {self.started}"
        return int.from_bytes(address(text.encode())[:8], "big") >> 2

    def is_this_process(self) -> bool:
        return self.pid == os.getpid() and self.counts_as_here() and self.started == start_of(self.pid)

    def counts_as_here(self) -> bool:
        """Whether its process number is one of those that can be seen from here. The name of a machine may change."""
        if not self.pids:
            return self.host == socket.gethostname()
        return self.boot == boot_id() and self.pids == pid_namespace()

    def __str__(self) -> str:
        session = f"session {self.session}, " if self.session else ""
        return f"{session}process {self.pid} on {self.host}"


class _Lease(msgspec.Struct, frozen=True, array_like=True):
    stamp: int
    holder: Holder


class Leases:
    """The leases of one store."""

    def __init__(self, pointers: Pointers) -> None:
        self._pointers = pointers
        self._store = pointers.store

    def acquire(self, branch: str, holder: Holder) -> None:
        """Take the lease, over from a dead holder if need be.

        Raises:
            BranchInUseError: a living one holds it.
        """

        def take(move: Move) -> None:
            lease = move.get(_key(branch), _Lease)
            if lease is not None and lease.holder != holder and lease.holder.is_alive(self._store):
                raise BranchInUseError(branch, str(lease.holder), _remedy(branch, lease.holder))
            move.set(_key(branch), _Lease(move.stamp, holder))

        if isinstance(self._store, SupportsLiveness):
            self._store.hold(holder.number)
        self._pointers.change(take)

    def release(self, branch: str, holder: Holder) -> None:
        """Give the lease back; nothing happens if somebody else has it by now."""

        def give(move: Move) -> None:
            lease = move.get(_key(branch), _Lease)
            if lease is not None and lease.holder == holder:
                move.set(_key(branch), None)

        self._pointers.change(give)

    def of(self, branch: str) -> Holder | None:
        """Who holds the branch, dead or alive."""
        lease = self._pointers.get(_key(branch), _Lease)
        return None if lease is None else lease.holder

    def living(self) -> Iterator[tuple[str, Holder]]:
        """Branches that living processes hold."""
        for key, lease in self._pointers.all(LEASES, _Lease).items():
            if lease.holder.is_alive(self._store):
                yield key[len(LEASES) :].decode(), lease.holder

    def refuse_others(self) -> None:
        """Raise BranchInUseError if another living process works in this store."""
        for branch, holder in self.living():
            if not holder.is_this_process():
                raise BranchInUseError(branch, str(holder), _remedy(branch, holder))

    def take_away(self, branch: str) -> Holder | None:
        """Free a branch whose holder cannot be asked from here. Returns who that was; None: nobody held it.

        Raises:
            BranchInUseError: the holder is alive on this machine.
        """

        def take(move: Move) -> Holder | None:
            lease = move.get(_key(branch), _Lease)
            if lease is None:
                return None
            if lease.holder.counts_as_here() and lease.holder.is_alive(self._store):
                raise BranchInUseError(branch, str(lease.holder))
            move.set(_key(branch), None)
            return lease.holder

        return self._pointers.change(take)


def refuse_leased(move: Move, branch: str) -> None:
    """Within a move, raise BranchInUseError if anybody alive holds the branch."""
    lease = move.get(_key(branch), _Lease)
    if lease is not None and lease.holder.is_alive(move.store):
        raise BranchInUseError(branch, str(lease.holder), _remedy(branch, lease.holder))


def _remedy(branch: str, holder: Holder) -> str:
    plain = "end that one first, or work on another branch"
    return (
        plain if holder.counts_as_here() else f"if it has ended, free the branch with %agent branch --release {branch}"
    )


def carry_lease(move: Move, old: str, new: str) -> None:
    """Within a move that renames a branch, take its lease along."""
    lease = move.get(_key(old), _Lease)
    if lease is not None:
        move.set(_key(old), None)
        move.set(_key(new), _Lease(move.stamp, lease.holder))


def _key(branch: str) -> bytes:
    return LEASES + branch.encode()


@functools.cache
def boot_id() -> str:
    """What tells one start of this machine from the next."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return _answer("sysctl", "-n", "kern.boottime")


@functools.cache
def pid_namespace() -> str:
    """What tells the process numbers of one container from those of another; "" where there is only one kind."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def start_of(pid: int) -> str:
    """When this process began, or "" if no process has this id."""
    try:
        # The second field, the program's name in brackets, may itself hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "" if Path("/proc/self/stat").exists() else _answer("ps", "-o", "lstart=", "-p", str(pid))
    # A zombie is dead, though its parent has not noticed.
    return "" if fields[0] in "ZX" else str(int(fields[19]) - _ticks_ahead())


@functools.cache
def _ticks_ahead() -> int:
    """By how much this process sees all others begin later than the machine does: a container may have its own clock."""
    try:
        lines = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:
        return 0
    offsets = {name: int(seconds) for name, seconds, *_ in map(str.split, lines)}
    return offsets.get("boottime", 0) * os.sysconf("SC_CLK_TCK")


def _answer(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
