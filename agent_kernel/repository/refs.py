"""Branches, tags, HEADs and their reflogs: what changes in a store, in one transaction, and who may write to a branch.

HEAD belongs to a session; the nameless session's HEAD says where the store was used last. A session that has none of
its own yet sees that one.
"""

from __future__ import annotations

import functools
import os
import random
import re
import socket
import subprocess
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from agent_kernel.errors import (
    AgentKernelError,
    BranchInUseError,
    BranchMovedError,
    DamagedObjectError,
    InvalidRefNameError,
    NewerFormatError,
    RefExistsError,
    RefNotFoundError,
    StoreUnavailableError,
    UnmergedBranchError,
)
from agent_kernel.repository.commits import Kind, ObjectId, address, hex_of
from agent_kernel.storage import SupportsLiveness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent_kernel.repository.commits import History
    from agent_kernel.repository.objects import Objects
    from agent_kernel.storage import Buffer, Store


# -- everything in a store that changes: refs, heads, reflogs, leases, settings
#
# A change is a `Move`: it reads keys and sets keys, and goes through only if all it read still holds when it is made. If
# not, it is built again from what holds now. So each operation is written as if it were alone.
#
# Values begin with a stamp, nanoseconds that only ever grow, so that A, B, A is seen as a change; the same stamp numbers
# the reflogs.

T = TypeVar("T")
V = TypeVar("V", bound=msgspec.Struct)

# 2: pages in parts, and all of values that came with them; 3: records; 4: chunks as parts of others, ends of documents in rows;
# 5: records that a commit holds beside its tree of them; 6: states of random generators as differences; 7: differences of one run of bytes;
# 8: what a commit says in a branch's reflog is not said again in that of the HEAD that moved with it; wider inner nodes of trees
FORMAT_VERSION: Final = 8
FORMAT: Final = b"x/format"
EPOCH: Final = b"x/epoch"  # changes whenever objects were deleted
ROSTER: Final = b"x/roster"  # changes whenever a branch, tag or head comes or goes
GARBAGE: Final = b"x/gc"  # what the last collection found unreachable
BRANCHES: Final = b"r/heads/"
TAGS: Final = b"r/tags/"
HEADS: Final = b"h/"
LEASES: Final = b"k/"
LOGS: Final = b"g/"
BESIDE: Final = b"n/b/"  # by branch: `Beside`
WAITING: Final = b"n/w/"  # what lies beside a branch: its name, NUL, 8 bytes that grow
SETTINGS: Final = b"x/"
RESERVED_SETTINGS: Final = frozenset({"format", "epoch", "roster", "gc"})

_CHANCE: Final = random.SystemRandom()  # the program's random numbers stay as they are
_ATTEMPTS: Final = 300
_PATIENCE_S: Final = 0.005
_NEWEST: Final = (1 << 64) - 1
_LINES_AT_ONCE: Final = 100  # of a branch's reflog


class Ref(msgspec.Struct, frozen=True, array_like=True):
    """A branch or a tag."""

    stamp: int
    commit: ObjectId


class HeadRecord(msgspec.Struct, frozen=True, array_like=True):
    """HEAD of a session: on a branch, or (detached) on a commit.

    Lines of branches' reflogs that name the session are HEAD's too, `since` this stamp: before that, another HEAD had the name.
    """

    stamp: int
    branch: str | None = None
    commit: ObjectId | None = None
    session: str = ""
    since: int = 0


class LogRecord(msgspec.Struct, frozen=True, array_like=True):
    """One line of a reflog; its time is in its key."""

    commit: ObjectId
    message: str = ""
    session: str = ""
    moved_from: str = ""  # the branch, or the commit's digits, that HEAD was moved away from


class Beside(msgspec.Struct, frozen=True, array_like=True):
    """How many changes of records lie beside the commits of a branch, until its next commit takes them in."""

    stamp: int
    count: int = 0


class Stamp(msgspec.Struct, frozen=True, array_like=True):
    """A value that only says that something happened, or how often."""

    stamp: int
    number: int = 0


def beside_key(branch: str) -> bytes:
    return BESIDE + branch.encode()


def waiting_prefix(branch: str) -> bytes:
    return WAITING + branch.encode() + b"\0"


def log_key(name: str, stamp: int) -> bytes:
    """The key of a reflog line. Stamps count down, so that the newest line comes first."""
    return log_prefix(name) + (_NEWEST - stamp).to_bytes(8, "big")


def log_prefix(name: str) -> bytes:
    return LOGS + name.encode() + b"\0"


def stamp_of_log(key: bytes) -> int:
    return _NEWEST - int.from_bytes(key[-8:], "big")


def encode_record(value: msgspec.Struct) -> bytes:
    return msgspec.msgpack.encode(value)


def decode_record(raw: bytes, shape: type[V]) -> V:
    """Decode a record that changes; raises DamagedObjectError if the bytes are not a valid record."""
    try:
        return msgspec.msgpack.decode(raw, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedObjectError("record", raw[:8].hex(), f"{shape.__name__} cannot be read: {error}") from error


class Move:
    """One attempt to change several keys at once."""

    def __init__(self, pointers: Pointers, fresh: bool) -> None:
        self._pointers = pointers
        self._fresh = fresh
        self.expected: dict[bytes, bytes | None] = {}
        self.new: dict[bytes, bytes | None] = {}
        self.items: Mapping[bytes, Sequence[Buffer] | Buffer] = {}
        self.objects: Mapping[bytes, bytes] = {}  # that are there, stored in another way
        self.used_cache = False
        self.stamp = time.time_ns()

    @property
    def store(self) -> Store:
        return self._pointers.store

    def read(self, keys: Iterable[bytes]) -> None:
        """Fetch several keys at once; `get` then finds them."""
        missing = [key for key in keys if key not in self.expected]
        cached = {} if self._fresh else self._pointers.find_cached(missing)
        self.used_cache |= bool(cached)
        self.expected.update(cached)
        self.expected.update(self._pointers.read([key for key in missing if key not in cached]))

    def raw(self, key: bytes) -> bytes | None:
        """The bytes of a key, which must still be there when the move is made."""
        if key not in self.expected:
            self.read([key])
        return self.expected[key]

    def get(self, key: bytes, shape: type[V]) -> V | None:
        """The value of a key, decoded. Whatever is set in this move gets a later stamp."""
        raw = self.raw(key)
        if raw is None:
            return None
        value = decode_record(raw, shape)
        self.stamp = max(self.stamp, getattr(value, "stamp", 0) + 1)
        return value

    def set(self, key: bytes, value: msgspec.Struct | None) -> None:
        """Set a key when the move is made, or delete it."""
        self.new[key] = None if value is None else encode_record(value)

    def log(self, name: str, commit: ObjectId, message: str, session: str, moved_from: str = "") -> None:
        """Add a line to a reflog; call it when all values this move changes have been read."""
        self.set(log_key(name, self.stamp), LogRecord(commit, message, session, moved_from))

    def log_move(self, branch: str | None, session: str, commit: ObjectId, message: str) -> None:
        """Add a line to the reflogs of a branch and of the HEAD that moves with it: once for both, for most lines are of that kind.

        Args:
            branch: None: HEAD is detached, and only its own reflog tells.
            session: "": HEAD is that of no session, which no line of a branch could name.
        """
        if branch is not None:
            self.log(branch, commit, message, session)
        if branch is None or not session:
            self.log(head_log(session), commit, message, session)

    def drop_log(self, branch: str) -> None:
        """Delete a branch's reflog. What it says of HEADs too is said in their own from then on."""
        for key, line in self._pointers.all(log_prefix(branch), LogRecord).items():
            self.new[key] = None
            head = self.get(head_key(line.session), HeadRecord) if line.session else None
            if head is not None and head.since <= stamp_of_log(key):
                self.set(log_key(head_log(line.session), stamp_of_log(key)), line)

    def stamp_format(self) -> None:
        """Note the format of what this move makes reachable, so that an earlier release leaves the store alone.

        Raises:
            NewerFormatError: a newer release wrote here meanwhile.
        """
        found = self.get(FORMAT, Stamp)
        refuse_newer(self.store, found)
        if found is None or found.number < FORMAT_VERSION:
            self.set(FORMAT, Stamp(self.stamp, FORMAT_VERSION))

    def enroll(self) -> None:
        """Note that a ref or head comes or goes."""
        self.get(ROSTER, Stamp)
        self.set(ROSTER, Stamp(self.stamp))


def refuse_newer(store: Store, found: Stamp | None) -> None:
    """Raise NewerFormatError if the store's format is one that this release does not know."""
    if found is not None and found.number > FORMAT_VERSION:
        raise NewerFormatError(store.url, found.number, FORMAT_VERSION)


class Pointers:
    """The changing keys of one store, with what was last seen of them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._seen: dict[bytes, bytes | None] = {}

    def find_cached(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        return {key: self._seen[key] for key in keys if key in self._seen}

    def read(self, keys: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """What the keys hold now, in one round trip."""
        wanted = list(keys)
        if not wanted:
            return {}
        found = self.store.get_many(wanted)
        values = {key: found.get(key) for key in wanted}
        self._seen.update((key, value) for key, value in values.items() if not key.startswith(LOGS))
        return values

    def get(self, key: bytes, shape: type[V]) -> V | None:
        raw = self.read([key])[key]
        return None if raw is None else decode_record(raw, shape)

    def keys(self, prefix: bytes, limit: int | None = None, after: bytes = b"") -> Iterator[bytes]:
        """All keys with this prefix, in order."""
        while True:
            page = self.store.keys(prefix, after, 1000 if limit is None else min(limit, 1000))
            yield from page
            if limit is not None:
                limit -= len(page)
            if len(page) < 1000 or limit == 0:
                return
            after = page[-1]

    def present(self, keys: Iterable[bytes]) -> set[bytes]:
        """Those of the keys, of whatever kind, that the store holds."""
        look: Callable[[Iterable[bytes]], set[bytes]] | None = getattr(self.store, "present", None)
        return look(keys) if look is not None else set(self.store.get_many(keys))

    def all(self, prefix: bytes, shape: type[V], limit: int | None = None) -> dict[bytes, V]:
        """All values under a prefix, or the first of them, by key."""
        return self.decoded(list(self.keys(prefix, limit)), shape)

    def decoded(self, keys: Sequence[bytes], shape: type[V]) -> dict[bytes, V]:
        """The values of those keys that are there."""
        found = self.store.get_many(keys) if keys else {}
        return {key: decode_record(found[key], shape) for key in keys if key in found}

    def change(self, build: Callable[[Move], T]) -> T:
        """Build a move and make it; build it again, from what holds then, as long as others come first.

        `build` may be called several times. What it raises on the ground of remembered values is not believed until
        it raises it again on fresh ones.
        """
        for attempt in range(_ATTEMPTS):
            move = Move(self, fresh=attempt > 0)
            try:
                result = build(move)
            except AgentKernelError:
                if move.used_cache:
                    continue
                raise
            if not move.new and not move.items:
                return result
            if self.store.swap(move.expected, {**move.new, **move.objects}, move.items):
                self._seen.update(
                    (key, value) for key, value in move.new.items() if not key.startswith((LOGS, WAITING))
                )
                return result
            if attempt > 1:
                time.sleep(_CHANCE.random() * _PATIENCE_S)
        raise StoreUnavailableError(self.store.url, f"others kept changing it during {_ATTEMPTS} attempts")


# -- who writes to a branch: one living process at a time
#
# A lease names its holder so exactly that a dead one is told from a living one on the same machine, even after a reboot
# or when the process number was given out again. In another container process numbers mean nothing: there the store says
# who is alive. Another machine cannot reach a store on a disk of this one, so a lease that names it is left from an earlier
# start under another name. On a network file system nothing can be told, so that holder counts as alive.


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """A session in a process."""

    host: str
    boot: str  # changes when the machine starts anew
    pid: int
    started: str  # when the process began, in whatever units the system counts
    session: str = ""
    pids: str = ""  # the namespace of process numbers; "": an earlier release, or a system without any

    @classmethod
    def of_this_process(cls, session: str = "") -> Holder:
        """This process."""
        return cls(socket.gethostname(), boot_id(), os.getpid(), start_of(os.getpid()), session, pid_namespace())

    def is_alive(self, store: object = None) -> bool:
        """Whether the process may still be running. `store`: where it said so; without it, less can be told."""
        is_same_host = self.host == socket.gethostname()
        liveness = store if isinstance(store, SupportsLiveness) else None
        if self.boot != boot_id():
            return not is_same_host and not (liveness is not None and liveness.is_on_this_machine)
        if self.is_visible_here():
            return start_of(self.pid) == self.started != ""
        return not (self.pids and liveness is not None and liveness.is_held(self.number) is False)

    @property
    def number(self) -> int:
        """What stands for the process in a store: 62 bits."""
        text = f"{self.boot} {self.pids} {self.pid} {self.started}"
        return int.from_bytes(address(text.encode())[:8], "big") >> 2

    def is_this_process(self) -> bool:
        return self.pid == os.getpid() and self.is_visible_here() and self.started == start_of(self.pid)

    def is_visible_here(self) -> bool:
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

    def find_living(self) -> Iterator[tuple[str, Holder]]:
        """Branches that living processes hold."""
        for key, lease in self._pointers.all(LEASES, _Lease).items():
            if lease.holder.is_alive(self._store):
                yield key[len(LEASES) :].decode(), lease.holder

    def refuse_others(self) -> None:
        """Raise BranchInUseError if another living process works in this store."""
        for branch, holder in self.find_living():
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
            if lease.holder.is_visible_here() and lease.holder.is_alive(self._store):
                raise BranchInUseError(branch, str(lease.holder))
            move.set(_key(branch), None)
            return lease.holder

        return self._pointers.change(take)


def refuse_leased(move: Move, branch: str, holder: Holder | None = None) -> None:
    """Within a move, raise BranchInUseError if anybody alive but `holder` holds the branch."""
    lease = move.get(_key(branch), _Lease)
    if lease is not None and lease.holder != holder and lease.holder.is_alive(move.store):
        raise BranchInUseError(branch, str(lease.holder), _remedy(branch, lease.holder))


def refuse_beside(move: Move, branch: str, *, is_own: bool = False) -> None:
    """Within a move of a branch, refuse to leave records beside it: they would be taken for newer than those of its commit.

    Raises:
        BranchInUseError: a living session put them there. BranchMovedError: somebody else did.
    """
    key = beside_key(branch)
    beside = move.get(key, Beside)
    if beside is not None and beside.count and key not in move.new:
        if not is_own:
            refuse_leased(move, branch)
        raise BranchMovedError(branch)


def _remedy(branch: str, holder: Holder) -> str:
    plain = "end that one first, or work on another branch"
    return (
        plain if holder.is_visible_here() else f"if it has ended, free the branch with %agent branch --release {branch}"
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


# -- what may name a branch or a tag: git's rules, so that names mean the same in both

MAX_BYTES: Final = 200
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
_UNSEEN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_ref_name(name: str, what: str = "a branch or tag") -> str:
    """Return the name if it can name a branch or a tag, or `what` gives its name to some.

    Raises:
        InvalidRefNameError: git would refuse it, it is longer than 200 bytes, or it holds control characters.
    """
    reason = _objection(name)
    if reason:
        raise InvalidRefNameError(name, reason, what)
    return name


def check_new_ref_name(name: str) -> str:
    """The same for a name that is being given: `refs/heads/main` is how git writes main, and would look like it.

    Raises:
        InvalidRefNameError: it begins with `refs/`, or as `check_ref_name`.
    """
    if name.startswith("refs/"):
        plain = name.removeprefix("refs/").removeprefix("heads/").removeprefix("tags/")
        raise InvalidRefNameError(name, f"it begins with refs/; say {plain}" if plain else "it begins with refs/")
    return check_ref_name(name)


@functools.lru_cache(maxsize=64)  # each commit asks of its branch
def _objection(name: str) -> str:
    if not name:
        return "it is empty"
    if any(unicodedata.category(char) in _UNSEEN for char in name) or not _TURNING.isdisjoint(name):
        return "it holds control characters"
    if len(name.encode()) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    if found := _FORBIDDEN.search(name):
        return f"it holds {found[0]!r}" if found[0] != " " else "it holds a space"
    if ".." in name or "@{" in name:
        return f"it holds {'..' if '..' in name else '@{'}, which means something else in git"
    if name in ("@", "HEAD") or name.startswith("-"):
        return "it means something else in git"
    if name.endswith("."):
        return "it ends with a dot"
    return next((reason for part in name.split("/") if (reason := _objection_to_part(part))), "")


def _objection_to_part(part: str) -> str:
    if not part:
        return "it begins or ends with a slash, or holds two in a row"
    if part.startswith("."):
        return "a part of it begins with a dot"
    if part.endswith(".lock"):
        return "a part of it ends with .lock"
    return ""


DEFAULT_BRANCH: Final = "main"
OF_KERNEL: Final = (
    "."  # in the id of a session, between its kernel, if it has one, and what tells it from the next one there
)
ASIDE: Final = "~"  # ids of sessions that work beside others begin so: where they are says nothing of where to go on


class Head(msgspec.Struct, frozen=True):
    """Where a session is: on a branch (whose commit is None before the first), or detached at a commit."""

    branch: str | None
    commit: ObjectId | None


class ReflogEntry(msgspec.Struct, frozen=True):
    """One move of a branch or of HEAD."""

    commit: ObjectId
    time_ns: int
    message: str
    session: str
    left: str = ""  # of HEAD: the branch, or the commit, that it was moved away from


def branch_key(name: str) -> bytes:
    return BRANCHES + name.encode()


def tag_key(name: str) -> bytes:
    return TAGS + name.encode()


def head_key(session: str) -> bytes:
    if "\0" in session or len(session.encode()) > 200:
        raise ValueError(f"a session id has at most 200 bytes and no NUL, not {session!r}")
    return HEADS + session.encode()


def head_log(session: str) -> str:
    """The name of a session's reflog; no branch can be called that."""
    return f"HEAD:{session}"


class Refs:
    """The named commits of one store."""

    def __init__(self, pointers: Pointers, objects: Objects, history: History) -> None:
        self.pointers = pointers
        self._objects = objects
        self._history = history

    def branches(self) -> dict[str, ObjectId]:
        return self._names(BRANCHES)

    def tags(self) -> dict[str, ObjectId]:
        return self._names(TAGS)

    def _names(self, prefix: bytes) -> dict[str, ObjectId]:
        found = self.pointers.all(prefix, Ref)
        return {key[len(prefix) :].decode(): ref.commit for key, ref in found.items()}

    def ref(self, key: bytes) -> ObjectId | None:
        found = self.pointers.get(key, Ref)
        return None if found is None else found.commit

    def list_refs(self) -> tuple[str, ...]:
        """List names to show somebody who asked for one that is not there."""
        return (*self.branches(), *self.tags())

    def head(self, session: str = "") -> Head:
        """Where the session is; a new session is where the store was used last."""
        record = self.head_record(session)
        return Head(DEFAULT_BRANCH, self.ref(branch_key(DEFAULT_BRANCH))) if record is None else self._head(record)

    def head_record(self, session: str) -> HeadRecord | None:
        keys = [head_key(session), HEADS]
        self.pointers.read(keys)
        return self.pointers.get(keys[0], HeadRecord) or self.pointers.get(HEADS, HeadRecord)

    def heads(self) -> dict[str, Head]:
        """HEAD of every session that ever moved it; "" is where the store was used last."""
        found = self.pointers.all(HEADS, HeadRecord)
        return {key[len(HEADS) :].decode(): self._head(record) for key, record in found.items()}

    def last_head(self, kernel: str) -> Head | None:
        """Where the last session of a kernel was; None: there was none."""
        found = self.pointers.all(head_key(kernel + OF_KERNEL), HeadRecord).values()
        return self._head(max(found, key=lambda record: record.stamp)) if found else None

    def _head(self, record: HeadRecord) -> Head:
        if record.branch is None:
            return Head(None, record.commit)
        return Head(record.branch, self.ref(branch_key(record.branch)))

    def move_head(self, session: str, head: Head, message: str) -> None:
        """Put a session on a branch, which need not have a commit yet, or detached on a commit."""
        if head.branch is not None:
            check_ref_name(head.branch)

        def build(move: Move) -> None:
            move.read([EPOCH, head_key(session), HEADS])
            before = move.get(head_key(session), HeadRecord)
            commit = head.commit
            if head.branch is not None:
                ref = move.get(branch_key(head.branch), Ref)
                commit = None if ref is None else ref.commit
            elif commit is None or not self.exists(commit):
                raise RefNotFoundError("HEAD" if commit is None else hex_of(commit), self.list_refs())
            set_head(move, session, head.branch, commit)
            if commit is not None:
                move.log(head_log(session), commit, message, session, _moved_from(move, before, head.branch))

        self.pointers.change(build)

    def drop_head(self, session: str) -> None:
        """Forget where a session was, and its reflog; nothing happens if it was nowhere."""

        def build(move: Move) -> None:
            if move.get(head_key(session), HeadRecord) is not None:
                move.enroll()
                move.set(head_key(session), None)
            for key in self.pointers.keys(log_prefix(head_log(session))):
                move.new[key] = None

        self.pointers.change(build)

    def move_branch(
        self, name: str, to: ObjectId, message: str, expected: ObjectId | None, session: str | None = None
    ) -> None:
        """Point a branch at another commit, if it still points at `expected` (None: is not there yet).

        Args:
            session: whose HEAD is on the branch, so that its reflog shows the move too.

        Raises:
            BranchMovedError: it points elsewhere by now, or records lie beside it.
        """
        check_ref_name(name)

        def build(move: Move) -> None:
            move.raw(EPOCH)
            ref = move.get(branch_key(name), Ref)
            if (None if ref is None else ref.commit) != expected:
                raise BranchMovedError(name)
            refuse_beside(move, name)
            if session is not None:
                set_head(move, session, name, None)
            self._point(move, branch_key(name), ref, to)
            if session is None:
                move.log(name, to, message, "")
            else:
                move.stamp_format()
                move.log_move(name, session, to, message)

        self.pointers.change(build)

    def create_branch(self, name: str, at: ObjectId, force: bool = False, message: str = "") -> None:
        """Make a branch, or with `force` move the one of that name.

        Raises:
            InvalidRefNameError: git would refuse the name.
            RefExistsError: there is one, and `force` is False.
            BranchInUseError: a living session writes to the one there is.
        """
        check_new_ref_name(name)

        def build(move: Move) -> None:
            move.raw(EPOCH)
            ref = move.get(branch_key(name), Ref)
            if ref is not None and not force:
                raise RefExistsError(name)
            if ref is not None:
                refuse_leased(move, name)
            refuse_beside(move, name)
            self._point(move, branch_key(name), ref, at)
            move.log(name, at, message or "branch: created", "")

        self.pointers.change(build)

    def create_tag(self, name: str, at: ObjectId, force: bool = False) -> None:
        """Make a tag, or with `force` move the one of that name; raises as `create_branch` does."""
        check_new_ref_name(name)

        def build(move: Move) -> None:
            move.raw(EPOCH)
            ref = move.get(tag_key(name), Ref)
            if ref is not None and not force:
                raise RefExistsError(name)
            self._point(move, tag_key(name), ref, at)

        self.pointers.change(build)

    def delete_tag(self, name: str) -> None:
        def build(move: Move) -> None:
            if move.get(tag_key(name), Ref) is None:
                raise RefNotFoundError(name, self.list_refs())
            move.enroll()
            move.set(tag_key(name), None)

        self.pointers.change(build)

    def delete_branch(self, name: str, force: bool = False) -> None:
        """Delete a branch and its reflog.

        Raises:
            BranchInUseError: a living session writes to it.
            UnmergedBranchError: nothing else reaches some of its commits, and `force` is False.
        """

        def build(move: Move) -> None:
            ref = move.get(branch_key(name), Ref)
            if ref is None:
                raise RefNotFoundError(name, self.list_refs())
            refuse_leased(move, name)
            refuse_beside(move, name)
            unreachable = [] if force else self._history.missing_from(ref.commit, self._find_other_tips(name))
            if unreachable:
                raise UnmergedBranchError(name, len(unreachable))
            move.enroll()
            move.set(branch_key(name), None)
            move.drop_log(name)

        self.pointers.change(build)

    def rename_branch(self, old: str, new: str, force: bool = False) -> None:
        """Rename a branch with its reflog, its lease and the HEADs that are on it."""
        check_new_ref_name(new)
        if old == new:
            return

        def build(move: Move) -> None:
            ref = move.get(branch_key(old), Ref)
            existing = move.get(branch_key(new), Ref)
            if ref is None:
                raise RefNotFoundError(old, self.list_refs())
            if existing is not None and not force:
                raise RefExistsError(new)
            refuse_leased(move, new)
            refuse_beside(move, old)
            refuse_beside(move, new)
            move.enroll()
            for key in list(self.pointers.keys(HEADS)):
                head = move.get(key, HeadRecord)
                if head is not None and head.branch == old:
                    move.set(key, msgspec.structs.replace(head, stamp=move.stamp, branch=new, commit=None))
            carry_lease(move, old, new)
            move.drop_log(new)
            lines = self.pointers.all(log_prefix(old), LogRecord)
            for key, line in lines.items():
                move.new[key] = None
                move.set(log_key(new, stamp_of_log(key)), line)
            move.set(branch_key(old), None)
            move.set(branch_key(new), Ref(move.stamp, ref.commit))

        self.pointers.change(build)

    def reflog(self, name: str, limit: int | None = None) -> list[ReflogEntry]:
        """The moves of a branch, or of `HEAD:<session>`, newest first."""
        lines = self._lines(name, limit)
        session = name.removeprefix(head_log(""))
        head = self.pointers.get(head_key(session), HeadRecord) if session not in ("", name) else None
        if head is not None:
            for branch in self._logged_branches():
                lines |= self._lines_of_head(branch, session, head.since, limit)
        return [
            ReflogEntry(line.commit, stamp, line.message, line.session, line.moved_from)
            for stamp, line in sorted(lines.items(), reverse=True)[:limit]
        ]

    def _lines(self, name: str, limit: int | None = None, before: int | None = None) -> dict[int, LogRecord]:
        """The newest lines of a reflog by their stamps, those of `before` and later left out."""
        after = b"" if before is None else log_key(name, before)
        keys = list(self.pointers.keys(log_prefix(name), limit, after=after))
        return {stamp_of_log(key): line for key, line in self.pointers.decoded(keys, LogRecord).items()}

    def _lines_of_head(self, branch: str, session: str, since: int, limit: int | None) -> dict[int, LogRecord]:
        """The newest lines of a branch's reflog that tell of a session's HEAD."""
        found: dict[int, LogRecord] = {}
        at_once = None if limit is None else max(limit, _LINES_AT_ONCE)
        oldest: int | None = None
        while limit is None or len(found) < limit:
            some = self._lines(branch, at_once, oldest)
            found.update((stamp, line) for stamp, line in some.items() if line.session == session and stamp >= since)
            oldest = min(some, default=0)
            if at_once is None or len(some) < at_once or oldest < since:
                break
        return found

    def _logged_branches(self) -> list[str]:
        """The branches that have a reflog: also one that is gone, where history was rewritten without it."""
        found: list[str] = []
        after = LOGS
        while key := next(iter(self.pointers.store.keys(LOGS, after, 1)), b""):
            name = key[len(LOGS) :].partition(b"\0")[0]
            is_head = name.startswith(head_log("").encode())
            found += [] if is_head else [name.decode()]
            # Past all lines of it; no branch's name holds a colon.
            after = LOGS + (head_log("")[:-1].encode() + b";" if is_head else name + b"\1")
        return found

    def exists(self, commit: ObjectId) -> bool:
        """Whether the store holds this commit; asked anew, since the cache may know more than the store."""
        return bool(self.pointers.present([Kind.COMMIT + commit]))

    def _point(self, move: Move, key: bytes, ref: Ref | None, at: ObjectId) -> None:
        if not self.exists(at):
            raise RefNotFoundError(hex_of(at), self.list_refs())
        if ref is None:
            move.enroll()
        move.set(key, Ref(move.stamp, at))

    def _find_other_tips(self, branch: str) -> list[ObjectId]:
        heads = [head.commit for head in self.heads().values() if head.branch is None and head.commit is not None]
        return [id for name, id in self.branches().items() if name != branch] + [*self.tags().values(), *heads]


def set_head(move: Move, session: str, branch: str | None, commit: ObjectId | None) -> None:
    """Within a move, put a session's HEAD somewhere, and note it as where the store was used last."""
    commit = commit if branch is None else None
    key, last = head_key(session), move.get(HEADS, HeadRecord)
    before = move.get(key, HeadRecord)
    if before is None or last is None:
        move.enroll()
    since = move.stamp if before is None else before.since
    if session.startswith(ASIDE):
        move.set(key, HeadRecord(move.stamp, branch, commit, since=since))
        return
    if key == HEADS:
        move.set(HEADS, HeadRecord(move.stamp, branch, commit))
        return
    if last is None or (last.branch, last.commit, last.session) != (branch, commit, session):
        move.set(HEADS, HeadRecord(move.stamp, branch, commit, session))
    move.set(key, HeadRecord(move.stamp, branch, commit, since=since))


def _moved_from(move: Move, before: HeadRecord | None, branch: str | None) -> str:
    before = before or move.get(HEADS, HeadRecord)
    if before is None or (before.branch == branch and branch is not None):
        return ""
    if before.branch is not None:
        return before.branch
    return "" if before.commit is None else hex_of(before.commit)
