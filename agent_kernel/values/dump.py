"""What pickling a group of values gave: the bytes to store, what was met on the way, and what could not be saved.

It is what change detection and the alias walk work on, because the raw object graph reaches far more than is saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from agent_kernel.values.definitions import DefinitionId
    from agent_kernel.values.references import Named


class CannotSaveError(Exception):
    """Below the value there is something that cannot be saved: it has to be dumped with care."""


class SaveFailure(msgspec.Struct, frozen=True):
    """Why an object below a value was not saved. `token` names the live object."""

    token: str
    type: str
    reason: str
    remedy: str = ""


class LiveNames(Protocol):
    """Gives lasting names to objects that cannot be pickled, and to classes."""

    def token_of(self, value: object) -> str: ...

    def save_failure_of(self, value: object) -> SaveFailure | None: ...

    def remedy_of(self, token: str) -> str: ...

    def surface_of(self, token: str, value: object) -> bytes: ...

    def uid_of(self, kind: type) -> str: ...


OBJECTS = "objects"


class Memory(Protocol):
    """Bytes that are stored beside a stream: a `pickle.PickleBuffer`, or an `atoms.Part`."""

    def raw(self) -> memoryview: ...


# Who writes to memory through a holder: everybody; a frame that copies on write, unless others have it too; nobody, as with Arrow
# and polars. Holders of one kind share nothing with one another in a way that shows, unless it is the first.
OPEN, COPIED, CONSTANT = range(3)


class MemoryUse(msgspec.Struct):
    """A buffer that a visited array or tensor looks at: `space` is "cpu" or a device, addresses are in bytes.

    In the space OBJECTS addresses are ids: of what is shared as the object that it is. `written`: OPEN, COPIED or CONSTANT.
    `owned`: the holder's own, each item in a place of its own.
    """

    holder: object
    space: str
    low: int
    high: int
    written: int = OPEN
    owned: bool = False


class Component(Protocol):
    """Objects that lead to one another and were dumped before, from `root`: a number in their dump stands for each."""

    @property
    def root(self) -> object: ...

    @property
    def places(self) -> Mapping[int, int]: ...


class Components(Protocol):
    """Knows the component of an object that leads back to where that was dumped from."""

    def find(self, value: object) -> Component | None: ...


class Dump(msgspec.Struct):
    """What pickling gave: streams and buffers to store, and what was visited, to compare and to walk."""

    pickles: int = 0
    streams: list[bytes] = []
    buffers: list[Memory] = []
    steps: list[int | None] = []
    # Positions of buffers that a library's own reducer gave: it wants memory back, ours read when they know what for.
    foreign: list[int] = []
    instances: list[object] = []
    opaque: list[object] = []
    roots: list[object] = []
    memory: list[MemoryUse] = []
    views: dict[int, object] = {}  # by id: the array each is a view of
    object_arrays: list[Any] = []
    answers: list[object] = []  # objects that keep answers which may be old: stored with those, and compared without
    labels: list[Any] = []  # object arrays of an Index or a copy-on-write frame, which groups nothing by them
    # Of arrays that were packed into the state of their holder those that something else holds too: holder, name, array.
    loose: list[tuple[Any, str, Any]] = []
    references: list[object] = []  # of each block: what knows who has its array
    label_references: list[object] = []  # and of each Index
    globals_used: set[str] = set()
    classes: dict[str, type] = {}
    definitions: dict[DefinitionId, bytes] = {}
    held_ids: set[int] = set()  # ids of what lies in objects that cannot be saved
    held_memory: set[tuple[int, int]] = set()  # and what arrays among these look at
    # Tokens of objects that may keep functions where nobody sees them.
    holders: set[str] = set()
    save_failures: dict[str, SaveFailure] = {}
    live: dict[str, object] = {}
    class_level: set[int] = set()
    # Lists, dicts and sets that modules hold, by id, and the packages of all that was saved as a name of a module.
    named: dict[int, Named] = {}
    packages: set[str] = set()
    # What reducers made on the way: ids above stay true only while these live.
    keepalive: list[object] = []
    met: list[Any] = []  # the components that numbers in the stream stand for

    def copy(self) -> Dump:
        """The same notes, to be gone on with."""
        fields = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return Dump(**{name: found if name in ("keepalive", "pickles") else found.copy() for name, found in fields})
