"""Rebuild stored groups, all aside: nothing that lives is touched until every one of them is there.

The order keeps notebook code from running before its class exists: bare classes first, then their methods, then their
other attributes, then values. A live class whose stored body is the same is used as it is.
"""

from __future__ import annotations

import gc
import io
import pickle
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from agent_kernel.values import classes, restore
from agent_kernel.values.definitions import NoSourceError, compiled
from agent_kernel.values.groups import Layout, losses_of
from agent_kernel.values.lost import Lost
from agent_kernel.values.pickler import Loss
from agent_kernel.values.recompiling import stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator


class Source(Protocol):
    """Where a loader gets what streams refer to."""

    def definition(self, definition: bytes) -> bytes: ...


class LiveObjects(Protocol):
    """Objects that could not be saved and may still live in this process."""

    def live_object(self, token: str) -> object | None: ...


class StoredGroup(msgspec.Struct, frozen=True):
    """A group to load: `stream(i)` gives the bytes of its i-th blob, `buffer(i)` a handle that reads it into memory."""

    members: tuple[str, ...]
    layout: Layout
    stream: Callable[[int], bytes]
    buffer: Callable[[int], restore.StoredBytes]


class Loader:
    """Loads groups together. One use; keep it until the values are in place."""

    def __init__(
        self,
        namespace: dict[str, object],
        source: Source,
        live: LiveObjects,
        reusable: Mapping[str, type] | None = None,
    ) -> None:
        self.namespace = namespace
        self.classes: dict[str, type] = dict(reusable or {})
        self.made: dict[str, type] = {}
        self._source = source
        self._live = live
        self._codes: dict[bytes, CodeType] = {}
        self._losses: dict[str, Loss] = {}
        self._placeholders: dict[str, object] = {}
        self._skeletons: dict[str, Callable[[], type]] = {}
        self._shared: dict[tuple[int, str], tuple[object, Any]] = {}

    def load(self, groups: Sequence[StoredGroup]) -> list[tuple[object, ...]]:
        """Return the values of each group, in the order of its members.

        Raises:
            Exception: whatever a stored reducer raises; nothing was put anywhere.
        """
        with restoring(self):
            streams = [_Streams(group) for group in groups]
            for stream in streams:
                self._losses.update((loss.token, loss) for loss in losses_of(stream.group.layout))
                self._skeletons.update(stream.skeletons())
            for uid in self._skeletons:
                self.find_class(uid)
            for stream in streams:
                stream.fill_methods()
            for stream in streams:
                stream.fill_attributes()
            values = [stream.values() for stream in streams]
            for stream in streams:
                stream.let_go()
            return values

    # -- what streams ask for (restore.Context)

    def code(self, definition: bytes) -> CodeType:
        if definition not in self._codes:
            payload = self._source.definition(definition)
            try:
                self._codes[definition] = compiled(payload)
            except NoSourceError:
                self._codes[definition] = stand_in(payload)
        return self._codes[definition]

    def code_with_cells(self, definition: bytes, cells: int) -> CodeType:
        code = self.code(definition)
        # Another Python may close over other names: then the code cannot run with the cells that were saved.
        return code if len(code.co_freevars) == cells else stand_in(self._source.definition(definition), cells)

    def find_class(self, uid: str) -> type:
        if uid not in self.classes:
            if uid not in self._skeletons:
                raise LookupError(f"the class {uid.partition('#')[0]} is not stored beside the value")
            self.classes[uid] = self.made[uid] = self._skeletons[uid]()
        return self.classes[uid]

    def live(self, token: str) -> object:
        alive = self._live.live_object(token)
        if alive is not None:
            return alive
        if token not in self._placeholders:
            loss = self._losses.get(token) or Loss(token, "object", "it could not be saved")
            self._placeholders[token] = Lost(loss)
        return self._placeholders[token]

    def live_or(self, token: str, make: Callable[[], object]) -> object:
        alive = self._live.live_object(token)
        return make() if alive is None else alive

    def once(self, key: tuple[int, str], make: Callable[[], object]) -> Any:
        # The key holds the id of an object in the stream's memo, which lives until the stream is loaded.
        if key not in self._shared:
            self._shared[key] = (key, make())
        return self._shared[key][1]


class _Streams:
    """The streams of one group, loaded step by step with the memo kept between."""

    def __init__(self, group: StoredGroup) -> None:
        self.group = group
        layout = group.layout
        self._skeleton_count = len(layout.skeletons)
        self._stream_count = self._skeleton_count + layout.streams
        self._unpicklers: dict[int, pickle.Unpickler] = {}
        self._anchors: list[object] = []

    def skeletons(self) -> Iterable[tuple[str, Callable[[], type]]]:
        for position, uid in enumerate(self.group.layout.skeletons):
            yield uid, self._maker(position)

    def _maker(self, position: int) -> Callable[[], type]:
        return lambda: classes.make(self._unpickler(position).load())

    def fill_methods(self) -> None:
        if self.group.layout.fills:
            self._unpickler(self._skeleton_count).load()

    def fill_attributes(self) -> None:
        if self.group.layout.fills:
            self._unpickler(self._skeleton_count).load()

    def values(self) -> tuple[object, ...]:
        layout = self.group.layout
        if layout.form:
            return self._segmented(layout)
        loaded: Any = self._unpickler(self._skeleton_count).load()
        return loaded if len(self.group.members) > 1 or layout.fills else (loaded,)

    def let_go(self) -> None:
        """Drop the memos: they hold all that was loaded, in a circle that only the garbage collector would find."""
        self._unpicklers.clear()

    def _segmented(self, layout: Layout) -> tuple[object, ...]:
        if layout.long < 0:
            return (join(layout.form, [self._unpickler(number).load() for number in range(layout.streams)]),)
        first = self._unpickler(0)
        self._anchors = first.load()
        others: tuple[object, ...] = first.load()
        long = join(layout.form, [self._unpickler(number).load() for number in range(1, layout.streams)])
        return (*others[: layout.long], long, *others[layout.long :])

    def _unpickler(self, position: int) -> pickle.Unpickler:
        if position not in self._unpicklers:
            stream = self.group.stream(position)
            self._unpicklers[position] = _Unpickler(io.BytesIO(stream), self._buffers(position), self._anchors)
        return self._unpicklers[position]

    def _buffers(self, position: int) -> Iterator[Any]:
        layout = self.group.layout
        if layout.buffers:
            first = sum(layout.buffers[:position])
            for number in range(first, first + layout.buffers[position]):
                stored = self.group.buffer(self._stream_count + number)
                yield restore.fresh_memory(stored) if number in layout.foreign else stored


class _Unpickler(pickle.Unpickler):
    """Finds by number what segments have in common with other members of their group."""

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers=buffers)
        self._anchors = anchors

    def persistent_load(self, pid: Any) -> object:
        return self._anchors[pid]


def join(form: str, parts: list[Any]) -> object:
    """Put segments together again."""
    if form == "dict":
        whole: dict[object, object] = {}
        for part in parts:
            whole.update(part)
        return whole
    items = [item for part in parts for item in part]
    return {"list": list, "tuple": tuple, "set": set}[form](items) if form != "list" else items


@contextmanager
def restoring(loader: Loader) -> Generator[None]:
    """Load with the collector off: it makes loading three times slower, and finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        with restore.restoring(loader):
            yield
    finally:
        if was_on:
            gc.enable()
