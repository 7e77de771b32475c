"""Rebuild stored groups, all aside: nothing that lives is touched until every one of them was tried.

The order keeps notebook code from running before its class exists: bare classes first, then their methods, then their
other attributes, then values. A live class whose stored body is the same is used as it is. A group that fails takes
nothing with it but the groups that need a class of its.
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

from agent_kernel.errors import StoreUnavailableError
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
    """A group to load: `stream(i)` gives the bytes of its i-th blob, `buffer(i)` a handle that reads it into memory.

    `slots` says which of the group's `count` values `members` are: names may have left it. `needs` are the ids of classes
    that are stored beside it.
    """

    members: tuple[str, ...]
    slots: tuple[int, ...]
    count: int
    layout: Layout
    stream: Callable[[int], bytes]
    buffer: Callable[[int], restore.StoredBytes]
    needs: frozenset[str] = frozenset()


class Failure(msgspec.Struct, frozen=True):
    """Why a group could not be loaded. `class_id`: the class whose loading failed, if that was it."""

    error: BaseException
    class_id: str = ""


class BrokenClassError(Exception):
    """A class was asked for that could not be made; says which, and carries why."""

    def __init__(self, class_id: str, error: BaseException) -> None:
        super().__init__(class_id)
        self.class_id, self.error = class_id, error


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
        self._broken: dict[str, BaseException] = {}
        self._shared: dict[tuple[int, str], Any] = {}  # of the stream that is being loaded

    def load(self, groups: Sequence[StoredGroup]) -> list[tuple[object, ...] | Failure]:
        """Return the values of each group, in the order of its slots, or why there are none. Puts nothing anywhere.

        Raises:
            KeyboardInterrupt: the person had enough.
            StoreUnavailableError: the store is gone.
        """
        streams = [_Streams(group) for group in groups]
        with restoring(self), self._lending() as lent:
            self._run(streams)
            while missing := self._missing(streams):
                lent |= missing
                self.namespace |= missing
                streams = [stream if stream.failure is None else _Streams(stream.group) for stream in streams]
                self._run([stream for stream in streams if not stream.is_done])
        for stream in streams:
            stream.let_go()
        return [stream.failure or stream.loaded for stream in streams]

    def _run(self, streams: Sequence[_Streams]) -> None:
        for stream in streams:
            self._losses.update((loss.token, loss) for loss in losses_of(stream.group.layout))
            self._skeletons.update(stream.skeletons())
            for uid in stream.class_ids:
                self._broken.pop(uid, None)
        self._try(streams, lambda stream: list(map(self.find_class, stream.class_ids)))
        self._try(streams, _Streams.fill_methods)
        self._try(streams, _Streams.fill_attributes)
        self._try(streams, _Streams.load_values)
        for uid in (uid for stream in streams if stream.failure is not None for uid in stream.class_ids):
            self.classes.pop(uid, None)
            self.made.pop(uid, None)

    def _missing(self, streams: Sequence[_Streams]) -> dict[str, object]:
        """Globals that notebook code wanted while it was loading, and that are loaded but nowhere yet."""
        errors = [stream.failure.error for stream in streams if stream.failure is not None]
        names = {error.name for error in errors if isinstance(error, NameError) and error.name is not None}
        names -= self.namespace.keys()
        done = [stream for stream in streams if names and stream.is_done]
        found = {
            name: value for stream in done for name, value in zip(stream.group.members, stream.loaded, strict=True)
        }
        return {name: found[name] for name in names & found.keys()}

    @contextmanager
    def _lending(self) -> Generator[dict[str, object]]:
        """Take out of the namespace again what a `__setstate__` needed of the state that is on its way."""
        lent: dict[str, object] = {}
        try:
            yield lent
        finally:
            for name, value in lent.items():
                if self.namespace.get(name, lent) is value:
                    del self.namespace[name]

    def _try(self, streams: Sequence[_Streams], step: Callable[[_Streams], object]) -> None:
        """Take one step with every group that has not failed; what needs the classes of one that fails fails with it."""
        for stream in streams:
            if stream.failure is None:
                self._shared = stream.shared
                try:
                    step(stream)
                except (KeyboardInterrupt, StoreUnavailableError):
                    raise
                except BrokenClassError as broken:
                    mine = broken.class_id in stream.class_ids
                    stream.fail(Failure(broken.error, "" if mine else broken.class_id))
                except BaseException as error:  # noqa: BLE001  # foreign code runs here; a panic of Rust is no Exception
                    stream.fail(Failure(error))
        _spread(streams)

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
            if uid in self._broken:  # its stream was read half-way
                raise BrokenClassError(uid, self._broken[uid])
            try:
                self.classes[uid] = self.made[uid] = self._skeletons[uid]()
            except (KeyboardInterrupt, StoreUnavailableError):
                raise
            except BrokenClassError as broken:
                self._broken[uid] = broken.error
                raise
            except BaseException as error:
                self._broken[uid] = error
                raise BrokenClassError(uid, error) from error
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
        # The key holds the id of an object in the stream's memo, which lives until the stream is loaded, or has failed.
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]


class _Streams:
    """The streams of one group, loaded step by step with the memo kept between."""

    def __init__(self, group: StoredGroup) -> None:
        self.group = group
        self.loaded: tuple[object, ...] = ()
        self.failure: Failure | None = None
        self.is_done = False
        self.shared: dict[tuple[int, str], Any] = {}
        layout = group.layout
        self.class_ids = layout.skeletons
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

    def load_values(self) -> None:
        values = self._values()
        self.loaded = tuple(values[slot] for slot in self.group.slots)
        self.is_done = True

    def fail(self, failure: Failure) -> None:
        """Let go of what was loaded: others may need the room."""
        self.failure, self.loaded, self.is_done = failure, (), False
        self.shared.clear()
        self._unpicklers.clear()
        self._anchors = []
        if isinstance(failure.error, MemoryError):
            failure.error.__traceback__ = None  # its frames hold what did not fit

    def _values(self) -> tuple[object, ...]:
        layout = self.group.layout
        if layout.form:
            return self._segmented(layout)
        loaded: Any = self._unpickler(self._skeleton_count).load()
        return loaded if self.group.count > 1 or layout.fills else (loaded,)

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


def _spread(streams: Sequence[_Streams]) -> None:
    """Let groups fail whose class has."""
    failed = {uid: stream.failure for stream in streams if stream.failure for uid in stream.class_ids}
    while failed:
        found: dict[str, Failure] = {}
        for stream in streams:
            uid = next((uid for uid in stream.group.needs if uid in failed), None)
            if stream.failure is None and uid is not None:
                stream.fail(Failure(failed[uid].error, failed[uid].class_id or uid))
                found |= dict.fromkeys(stream.class_ids, Failure(failed[uid].error, failed[uid].class_id or uid))
        failed = found


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
