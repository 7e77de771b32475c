"""Rebuild stored groups, all aside: nothing that lives is touched until every one of them was tried.

The order keeps notebook code from running before its class exists: bare classes first, then their methods, then their
other attributes (of classes first whose instances others hold), then values. A live class whose stored body is the same
is used as it is. A group that fails takes nothing with it but the groups that need a class of its.
"""

# What classes and variables hold is of any type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import copy
import copyreg
import dis
import enum
import io
import itertools
import pickle
import random
import sys
import types
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import chain, islice
from traceback import walk_tb
from types import CodeType
from typing import Any, ClassVar, Protocol

from agent_kernel.errors import BundleError, StoreUnavailableError
from agent_kernel.quiet import seldom_collected
from agent_kernel.values import restore
from agent_kernel.values.aliases import SaveFailure
from agent_kernel.values.classes import (
    DICTS,
    PLAIN_CONTAINERS,
    Content,
    attributes_of,
    by_need,
    can_be_filled,
    containers_below,
    is_container,
    items_of,
)
from agent_kernel.values.definitions import NoSourceError, find_nested_codes, load_code, stand_in
from agent_kernel.values.groups import failures_of
from agent_kernel.values.introspection import bases_of, class_dict, ids_of, loaded_class, module_name
from agent_kernel.values.restore.code import ModuleContent
from agent_kernel.values.restore.context import Later
from agent_kernel.values.restore.objects import can_take, instance, set_content
from agent_kernel.values.restore.taking import content_for
from agent_kernel.values.streams import Failure, Finding, StoredGroup, Streams, drop_operands, target_of_step
from agent_kernel.values.surface import Placeholder

_ENDS_ALL = (KeyboardInterrupt, StoreUnavailableError, BundleError)  # nothing can be loaded: no failure of one value


class Source(Protocol):
    """Where a loader gets what streams refer to."""

    def definition(self, definition: bytes) -> bytes: ...


class LiveObjects(Protocol):
    """Objects that could not be saved and may still live in this process."""

    def live_object(self, token: str) -> object | None: ...

    def live_or_new(self, token: str, make: Callable[[], object]) -> object: ...

    def placeholder(self, token: str, failure: SaveFailure) -> Placeholder: ...

    def find_pinned(self, token: str) -> object | None: ...

    def has_lived(self, uid: str) -> bool:
        """Whether a class of this id was made in this process: modules have noted it."""
        ...


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
        *,
        sets_back: bool = False,
        sets_pinned: bool = False,
    ) -> None:
        """A loader.

        Args:
            sets_back: what the person's own modules hold is the live object, and `contents` says what goes back into it;
                otherwise a copy, and nothing live is touched.
            sets_pinned: so is what objects that stay alive have hold of.
        """
        self.namespace = namespace
        self.classes: dict[str, type] = dict(reusable or {})
        self.new_classes: dict[str, type] = {}
        self._source = source
        self._live = live
        self._codes: dict[bytes, CodeType] = {}
        self._save_failures: dict[str, SaveFailure] = {}
        self._skeletons: dict[str, Callable[[], type]] = {}
        self._broken: dict[str, BaseException] = {}
        self._stream: Streams | None = None  # the one that is being loaded
        self.contents: list[tuple[object, Any]] = []
        self.registers: list[object] = []  # in which modules may have noted classes that were made here
        self._making = ""
        self._sets_back = sets_back
        self._sets_pinned = sets_back and sets_pinned
        self.pinned_anew: dict[str, object] = {}  # by token, in the place of objects that nothing holds any more
        self.kept_live: dict[str, bytes] = {}  # by token, what told of the content of objects that stay as they are
        self.held_ids: set[int] = set()  # of the live objects into which something goes back
        self._lent: dict[str, object] = {}  # in the namespace while notebook code that wants it is loading
        self._hidden: dict[str, object] = {}  # what has stood there
        self._guard = Guard(namespace)
        self._provisional: dict[tuple[int, str], type] = {}
        self._wanted: dict[str, str] = {}  # names that notebook code asked for while it was loading, and their classes

    def put_back(self, kinds: Iterable[type], codes: Iterable[CodeType]) -> None:
        """Put back, once all is loaded, also what these classes hold and what this code changes."""
        for kind in kinds:
            self._guard.keep_class(kind)
        self._guard.keep_used(codes)

    def load(self, groups: Sequence[StoredGroup]) -> list[tuple[object, ...] | Failure]:
        """Return the values of each group, in the order of its slots, or why they cannot be loaded. Puts nothing anywhere.

        Raises:
            KeyboardInterrupt: the person had enough.
            StoreUnavailableError: the store is gone. BundleError: it is a file in which something does not match.
        """
        streams = [Streams(group) for group in groups]
        self._guard.keep_namespace()
        for kind in self.classes.values():
            self._guard.keep_class(kind)
        with restoring(self), self._putting_back(), self._lending():
            self._run(streams)
            streams = self._hash_last(streams)
            streams = self._go_without_lost(streams)
            done: int | None = None
            while again := self._lend(streams, done):
                done = sum(stream.is_done for stream in streams)
                streams = [stream.again() if stream in again else stream for stream in streams]
                self._run([stream for stream in streams if not stream.is_done])
            streams = self._load_rests(streams)
        for (_, name), kind in self._provisional.items():
            if class_dict(kind).get(name, self) is None:
                type.__delattr__(kind, name)
        for stream in streams:
            self.contents += _of_same_sources(stream.contents, stream.loaded)
            self.pinned_anew |= stream.pinned
            stream.let_go()
        return [stream.failure or stream.loaded for stream in streams]

    def _go_without_lost(self, streams: list[Streams]) -> list[Streams]:
        """Load again groups in which an object cannot be made of one that was not saved and is gone: it is gone with that one."""
        failed = [stream for stream in streams if stream.failure is not None and stream.group.layout.losses]
        return self._run_anew(streams, {one: one.without_lost() for one in failed if not one.group.is_plain})

    def _hash_last(self, streams: list[Streams]) -> list[Streams]:
        """Load again groups in which a hash was wanted of objects that were not filled yet: they lead to themselves."""
        failed = [stream for stream in streams if stream.failure is not None and _fails_in_hash(stream.failure.error)]
        return self._run_anew(streams, {stream: stream.hashed_last() for stream in failed})

    def _run_anew(self, streams: list[Streams], instead: dict[Streams, Streams]) -> list[Streams]:
        if not instead:
            return streams
        # A group that needs a class of such a group has failed with it.
        instead |= {
            stream: stream.again() for stream in streams if stream.failure is not None and stream not in instead
        }
        self._run(list(instead.values()))
        return [instead.get(stream, stream) for stream in streams]

    def _load_rests(self, streams: list[Streams]) -> list[Streams]:
        """Load the other objects of groups that failed: groups with classes first, then again those that need such a class."""
        failed = [stream for stream in streams if stream.failure is not None]
        self._broken |= {
            uid: failure.error for one in failed if (failure := one.failure) is not None for uid in one.class_ids
        }
        instead: dict[Streams, Streams] = {}
        came: set[str] = set()
        for stream in (
            *_by_need([one for one in failed if one.class_ids]),
            *(one for one in failed if not one.class_ids),
        ):
            if came & stream.group.needs:
                instead[stream] = stream.again()
                self._run([instead[stream]])
            came |= self._load_rest(instead.get(stream, stream))
        return [instead.get(stream, stream) for stream in streams]

    def _load_rest(self, stream: Streams) -> set[str]:
        """Load what shares a group with an object that fails and does not hold it. Returns the classes that came back."""
        failure = stream.failure
        if failure is None:
            return set(stream.class_ids)
        if isinstance(failure.error, MemoryError):
            return set()
        self._stream = stream
        try:
            stream.load_rest(self.namespace, partial(self._make_classes, stream, failure.error))
        except _ENDS_ALL:
            raise
        except BaseException:  # noqa: BLE001  # then all of the group fails, with the error that is known
            self._make_classes(stream, failure.error, stream.class_ids)
            stream.fail(failure)
        return self.classes.keys() & set(stream.class_ids)

    def _make_classes(self, stream: Streams, error: BaseException, lost: Collection[str]) -> dict[str, type]:
        """Make the classes of a group again, without their content.

        Args:
            lost: ids of classes that are not made, because they hold what cannot be loaded.
        """
        for uid in stream.class_ids:
            for known in (self.classes, self.new_classes, self._broken):
                known.pop(uid, None)
        self._broken |= dict.fromkeys(lost, error)
        made: dict[str, type] = {}
        for uid in stream.class_ids:
            with suppress(BrokenClassError):
                made[uid] = self.find_class(uid)
        return made

    def _run(self, streams: Sequence[Streams]) -> None:
        for stream in streams:
            self._save_failures.update((failure.token, failure) for failure in failures_of(stream.group.layout))
            self._skeletons.update(stream.skeletons())
            for uid in stream.class_ids:
                self._broken.pop(uid, None)
        self._try(streams, lambda stream: list(map(self.find_class, stream.class_ids)))
        self._try(streams, Streams.fill_methods)
        for kind in self.classes.values():
            self._guard.keep_globals(kind)
        self._lend_classes()
        self._fill_bodies(streams)
        self._try(streams, Streams.load_values)
        for uid in (uid for stream in streams if stream.failure is not None for uid in stream.class_ids):
            self.classes.pop(uid, None)
            self.new_classes.pop(uid, None)

    def _lend(self, streams: Sequence[Streams], done: int | None) -> list[Streams]:
        """Let notebook code that runs while it is loading find the variables that are loaded with it; returns what to load again.

        Args:
            done: how many were loaded when something was lent last; None: nothing was.
        """
        failed = [stream for stream in streams if stream.failure is not None]
        missing = self._find_missing(streams)
        stale, misled = self._find_stale(streams)
        for name, value in (missing | stale).items():
            if name in self.namespace:
                self._hidden.setdefault(name, self.namespace[name])
            self.namespace[name] = self._lent[name] = value
        is_new = bool(missing or stale) | self._names_class(streams)
        # What is there by now may be what the others lacked.
        is_more = done is not None and sum(stream.is_done for stream in streams) > done
        return failed + misled if is_new or is_more else []

    def _find_missing(self, streams: Sequence[Streams]) -> dict[str, object]:
        """Globals that notebook code wanted while it was loading, and that are loaded but nowhere yet."""
        wanted = {stream: _name_wanted(stream) for stream in streams if stream.failure is not None}
        names = set(filter(None, wanted.values())) - self.namespace.keys() - self._lent.keys()
        if not names:
            return {}
        found = {name: value for stream in streams for name, value in stream.named() if name in names}
        self._guard.keep_containers(found.values())
        for stream in (stream for stream, name in wanted.items() if name in names - found.keys()):
            found |= self._lend_own(stream, names & {*stream.group.members})
        return found

    def _lend_own(self, stream: Streams, names: Collection[str]) -> dict[str, object]:
        """Lend variables that share the group of what wants them: the objects that the group gets, as far as they can be made."""
        self._stream = stream
        try:
            found = stream.lend(names, self.namespace, self._keep_filled)
        except _ENDS_ALL:
            raise
        except BaseException:  # noqa: BLE001  # foreign code runs here; the group fails with the error that is known
            found = dict[str, object]()
        if not found:  # what code registers in a variable of its own group is in there already: an empty one takes that
            found |= {name: PLAIN_CONTAINERS[form]() for name, form in stream.group.layout.used if name in names}
            self._guard.keep_containers(found.values())
        self._guard.keep_arrays(found.values())
        return found

    def _keep_filled(self, made: object) -> None:
        container: Any = made if is_container(made) else attributes_of(made)
        if container is None:
            return
        content = Content(container).items
        self._guard.keep_content(container, content)
        self._guard.keep_containers(content.values() if type(content) is dict else content)

    def _find_stale(self, streams: Sequence[Streams]) -> tuple[dict[str, object], list[Streams]]:
        """Globals of which notebook code found other values than those that are loaded with it, and what has to be loaded again."""
        live = self._guard.names_used & self.namespace.keys() - self._lent.keys()
        if not live:
            return {}, []
        done = [stream for stream in streams if stream.is_done]
        stale = {
            name: value
            for stream in done
            for name, value in stream.named()
            if name in live and self.namespace[name] is not value
        }
        self._guard.keep_containers(stale.values())
        misled = self._find_misled(streams, live, stale)
        return stale if misled else {}, [stream for stream in misled if stream.is_done]

    def _find_misled(
        self, streams: Sequence[Streams], live: Collection[str], stale: dict[str, object]
    ) -> list[Streams]:
        """The groups whose code found such values, also those that failed for it; what they share their group with is lent, too."""
        misled: list[Streams] = []
        for stream in streams:
            own = {*stream.group.members}.intersection(live) if stream.failure is not None else set[str]()
            if stream.class_ids or not (stale or own):
                continue
            kinds = [self.classes[uid] for uid in stream.group.needs if uid in self.classes]
            names = names_run(kinds, self.namespace).intersection(stale.keys() | own)
            if names:
                misled.append(stream)
                stale |= self._lend_own(stream, names & {*stream.group.members})
        return misled

    def _names_class(self, streams: Sequence[Streams]) -> bool:
        """Whether notebook code wanted a class by its name that is not bound yet; from now on it is there in time."""
        names = set(filter(None, map(_name_wanted, streams)))
        uids = [uid for stream in streams for uid in stream.class_ids]
        found: dict[str, str] = {}
        for stream in streams:
            for name in names.intersection(stream.group.members) - self.namespace.keys() - self._wanted.keys():
                if len(stream.group.members) == 1 and not stream.group.layout.form and not stream.class_ids:
                    content = stream.group.stream(0)
                    named = [uid for uid in uids if uid.encode() in content and len(content) < len(uid) + _REFERENCE]
                    found |= dict.fromkeys([name], named[0]) if named else {}
        self._wanted |= found
        return bool(found)

    def _lend_classes(self) -> None:
        for name, uid in self._wanted.items():
            if uid in self.classes:
                self.namespace[name] = self._lent[name] = self.classes[uid]

    def _fill_bodies(self, streams: Sequence[Streams]) -> None:
        """Give classes their attributes, those first that others need; what failed is tried again after the others."""
        ordered = _by_need([stream for stream in streams if stream.failure is None and stream.group.layout.fills])
        before: list[Callable[[Streams], object]] = [Streams.fill_methods]
        for step in (Streams.fill_early, Streams.fill_attributes):
            waiting = ordered
            while waiting:
                for stream in waiting:
                    self._step(stream, step)
                failed = [stream for stream in waiting if stream.failure is not None]
                if len(failed) == len(waiting) and not self._say_none(failed):
                    break
                for stream in failed:
                    stream.begin_again()
                    for earlier in before:
                        self._step(stream, earlier)
                waiting = failed
            before.append(step)
            _spread_failures(streams)
            ordered = [stream for stream in ordered if stream.failure is None]

    def _say_none(self, failed: Sequence[Streams]) -> bool:
        """Let classes have an attribute that code wanted of them before there is what it holds, an instance of theirs."""
        found = False
        for stream in failed:
            error = stream.failure.error if stream.failure is not None else None
            if not isinstance(error, AttributeError) or not error.name:
                continue
            for kind in [made for made in self.new_classes.values() if id(made) == id(error.obj)]:
                if (id(kind), error.name) not in self._provisional and error.name not in class_dict(kind):
                    type.__setattr__(kind, error.name, None)
                    self._provisional[id(kind), error.name] = kind
                    found = True
        return found

    @contextmanager
    def _putting_back(self) -> Generator[None]:
        try:
            yield
        finally:
            self._guard.put_back()

    @contextmanager
    def _lending(self) -> Generator[None]:
        """Have the namespace as it was, whatever code of the notebook's needed of the state that is on its way."""
        try:
            yield
        finally:
            for name in self._lent:
                self.namespace.pop(name, None)
                self.namespace |= {name: self._hidden[name]} if name in self._hidden else {}

    def _try(self, streams: Sequence[Streams], step: Callable[[Streams], object]) -> None:
        """Take one step with every group that has not failed; what needs the classes of one that fails fails with it."""
        for stream in streams:
            self._step(stream, step)
        _spread_failures(streams)

    def _step(self, stream: Streams, step: Callable[[Streams], object]) -> None:
        if stream.failure is not None:
            return
        self._stream = stream
        try:
            step(stream)
        except _ENDS_ALL:
            raise
        except BrokenClassError as broken:
            mine = broken.class_id in stream.class_ids
            stream.fail(Failure(broken.error, "" if mine else broken.class_id))
        except BaseException as error:  # noqa: BLE001  # foreign code runs here; a panic of Rust is no Exception
            stream.fail(Failure(error))

    # -- what streams ask for (restore.Context)

    @property
    def takes_place(self) -> bool:
        return self._sets_back

    def code(self, definition: bytes) -> CodeType:
        if definition not in self._codes:
            payload = self._source.definition(definition)
            try:
                self._codes[definition] = load_code(payload)
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
            before, self._making = self._making, uid
            try:
                self.classes[uid] = self.new_classes[uid] = made = self._skeletons[uid]()
                self._guard.keep_names(made)
            except _ENDS_ALL:
                raise
            except BrokenClassError as broken:
                self._broken[uid] = broken.error
                raise
            except BaseException as error:
                self._broken[uid] = error
                raise BrokenClassError(uid, error) from error
            finally:
                self._making = before
        return self.classes[uid]

    def fills(self, made: type) -> bool:
        elsewhere = self._stream.group.elsewhere if self._stream is not None else ()
        return not any(self.classes.get(uid) is made for uid in elsewhere)

    def live(self, token: str, surface: bytes = b"") -> object:
        alive = self._live.live_object(token)
        if alive is not None:
            self.kept_live[token] = surface
            return alive
        return self._live.placeholder(
            token, self._save_failures.get(token) or SaveFailure(token, "object", "it could not be saved")
        )

    def live_or(self, token: str, make: Callable[[], object]) -> object:
        made = self._live.live_or_new(token, make)
        if self._sets_back:
            self.held_ids.add(id(made))
        return made

    def once(self, key: tuple[int, str], make: Callable[[], object]) -> Any:
        # The key holds the id of an object in the stream's memo, which lives until the stream is loaded, or has failed.
        shared = self._stream.shared if self._stream is not None else {}
        if key not in shared:
            shared[key] = make()
        return shared[key]

    def held(self, module: str, name: str, kind: type) -> object:
        live = _find_live(module, name) if self._sets_back else None
        if type(live) is kind:
            self.held_ids.add(id(live))
            return live
        return instance(kind)

    def pinned(self, token: str, kind: type | None, make: Callable[..., object], arguments: tuple[Any, ...]) -> object:
        live = self._live.find_pinned(token) if self._sets_pinned else None
        if live is not None and (kind is None or type(live) is kind) and can_take(live, arguments):
            self.held_ids.add(id(live))
            return live
        made = make(*arguments)
        if self._sets_pinned and self._stream is not None:
            self._stream.pinned[token] = made
        return made

    def taken(self, token: str, make: Callable[..., object], arguments: tuple[Any, ...]) -> object:
        made = make(*arguments)
        live = self._live.find_pinned(token) if self._sets_pinned else None
        content = content_for(live, made) if live is not None else None
        if content is not None and self._stream is not None:
            self.held_ids.add(id(live))
            self._stream.contents.append((live, content))
            return live
        if self._sets_pinned and self._stream is not None:
            self._stream.pinned[token] = made
        return made

    def held_as(
        self, module: str, name: str, kind: type | None, make: Callable[..., object], arguments: tuple[Any, ...]
    ) -> object:
        live = _find_live(module, name) if self._sets_back else None
        if live is not None and type(live) is kind and can_take(live, arguments):
            self.held_ids.add(id(live))
            return live
        return make(*arguments)

    def refill(self, made: object, content: Later) -> None:
        if id(made) in self.held_ids and self._stream is not None:
            self._stream.contents.append((made, content))
        else:
            content.give(made)

    def set_content(self, made: object, content: Any) -> None:
        if id(made) in self.held_ids and self._stream is not None:
            self._stream.contents.append((made, content))
        else:
            set_content(made, content)
            if is_container(made):  # else it is an object of a module of the person's own
                self._guard.keep_content(made, content)

    def note_registers(self, bases: tuple[type, ...], meta: type) -> None:
        if not self._sets_back or self._live.has_lived(self._making):  # else it is news for modules, once
            self.registers += self._guard.keep_registers(bases, meta)

    def set_later(self, made: object, content: Later) -> None:
        """Note what goes into an object that lives, and is changed by nothing that is only looked at."""
        if self._sets_back and self._stream is not None:
            self._stream.contents.append((made, content))

    def note_attribute(self, made: type, name: str, value: object) -> None:
        self._guard.keep_attribute(made, name, value)
        self._guard.note_name(made, name)


def _fails_in_hash(error: BaseException) -> bool:
    """Whether an object was asked for its hash, or what it is equal to, as a set or dict was filled with it."""
    return any(frame.f_code.co_name in ("__hash__", "__eq__") for frame, _ in walk_tb(error.__traceback__))


def _name_wanted(stream: Streams) -> str | None:
    """The variable that notebook code wanted in vain."""
    error = stream.failure.error if stream.failure is not None else None
    return error.name if isinstance(error, NameError) else None


def _of_same_sources(contents: list[tuple[object, Any]], loaded: Sequence[object]) -> list[tuple[object, Any]]:
    """Without what goes into modules whose source is another one by now; variables for it get it all the same."""
    other = [content for made, content in contents if type(content) is ModuleContent and not content.is_of(made)]
    unloaded_ids = {id(value) for content in other for value in content.state.values()}.difference(map(id, loaded))
    return [
        (made, content)
        for made, content in contents
        if id(made) not in unloaded_ids and not any(content is o for o in other)
    ]


def _find_live(module: str, name: str) -> object:
    """What a module holds; None where it is gone: its content was saved, and is not lost with it."""
    try:
        return vars(import_module(module)).get(name)
    except ModuleNotFoundError:
        return None


# The bytes of a stream that holds nothing but a class, beside the class's id.
_REFERENCE = 150


def _by_need(streams: Sequence[Streams]) -> list[Streams]:
    """In an order in which a group comes after those whose classes it needs, as far as they do not need each other."""
    if len(streams) < 2:
        return list(streams)
    owners = {uid: number for number, stream in enumerate(streams) for uid in stream.class_ids}
    needs = [[owners[uid] for uid in stream.group.needs if uid in owners] for stream in streams]
    return [streams[number] for number in by_need(needs)]


def _spread_failures(streams: Sequence[Streams]) -> None:
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


@contextmanager
def restoring(loader: Loader) -> Generator[None]:
    """Load with a collector that seldom runs: it makes loading three times slower, and finds nothing."""
    with seldom_collected(), restore.restoring(loader):
        yield


# -- read a stream in which an object fails: it is marked, and all that does not hold it comes out as ever
#
# Python's own unpickler, for the one in C stops at the first error. What is made of something that failed has failed, too.

# The steps of Python's unpickler are no part of its interface, and have no types.


_python: Any = pickle
_Python: Any = _python._Unpickler


class Missing:
    """In the place of what could not be made."""


class TolerantUnpickler(Finding, _Python):  # type: ignore[misc]
    """`broken` are the objects that failed: placeholders for those that could not be made, and those half made."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Python.dispatch)

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers, anchors)
        self.broken: list[object] = []
        self._ids: set[int] = set()

    def is_broken(self, value: object) -> bool:
        if not self._ids:
            return False
        return any(id(part) in self._ids for part in (value if type(value) is tuple else (value,)))

    def note(self, broken: object) -> None:
        self.broken.append(broken)
        self._ids.add(id(broken))


def _fills_class(called: Any) -> bool:
    return type(called) is types.FunctionType and called.__module__ == restore.classes.__name__


def _wrap_step(step: Callable[[Any], None], taken: int) -> Callable[[Any], None]:
    """A step that takes these many parts and leaves the object that is made of them."""

    def load(self: Any) -> None:
        parts = self.stack[-taken:]
        before = len(self.stack) - taken
        if not any(map(self.is_broken, parts)):
            try:
                step(self)
            except _ENDS_ALL:
                raise
            except Exception:  # noqa: BLE001  # foreign code runs here
                # A function that was to set the state of what it is given first.
                arguments = parts[-1] if parts and type(parts[-1]) is tuple else ()
                for one in arguments[:1]:
                    if type(one).__module__ != "builtins":
                        self.note(one)
            else:
                return
        if parts and type(parts[-1]) is tuple and _fills_class(parts[0]):
            self.note(parts[-1][0])
        del self.stack[before:]
        missing = Missing()
        self.note(missing)
        self.stack.append(missing)

    return load


for _code, _operands in ((pickle.REDUCE, 2), (pickle.NEWOBJ, 2), (pickle.NEWOBJ_EX, 3), (pickle.STACK_GLOBAL, 2)):
    TolerantUnpickler.dispatch[_code[0]] = _wrap_step(_Python.dispatch[_code[0]], _operands)


# Steps that fill a container, and how far below the top of the stack it lies; 0: the items are on a stack of their own.
_FILLS = (
    *((pickle.APPEND, 2), (pickle.SETITEM, 3)),
    *((pickle.APPENDS, 0), (pickle.SETITEMS, 0), (pickle.ADDITEMS, 0)),
)


class SparingUnpickler(Finding, _Python):  # type: ignore[misc]
    """Where an object cannot be made of a lost one (a `map` over a generator), leaves the placeholder in its place."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Python.dispatch)


def _wrap_sparing_step(step: Callable[[Any], None], taken: int) -> Callable[[Any], None]:
    """A step that makes an object: where that fails, the lost object among its parts takes its place."""

    def load(self: Any) -> None:
        parts = self.stack[-taken:]
        before = len(self.stack) - taken
        try:
            step(self)
        except _ENDS_ALL:
            raise
        except Exception:
            lost = None if _sets_state(*parts[:2]) else _find_lost(parts)
            if lost is None:
                raise
            del self.stack[before:]
            self.stack.append(lost)

    return load


def _sets_state(called: Any, arguments: Any) -> bool:
    """Whether this may be a function of ours that fills what it is given first: then that is half made, not its result."""
    first = arguments[0] if type(arguments) is tuple and arguments else None
    return (
        module_name(type(called)) == "builtins"
        and str(getattr(called, "__module__", "")).startswith("agent_kernel.")
        and not isinstance(first, (str, type, Placeholder, types.NoneType))
    )


def _find_lost(parts: Iterable[object]) -> Placeholder | None:
    """The lost object among the arguments of a call."""
    todo = list(parts)
    while todo:
        part = todo.pop(0)
        if type(part) is Placeholder:
            return part
        if type(part) is tuple:
            todo += part
        elif type(part) is dict:
            todo += part.values()
    return None


def _wrap_sparing_fill(step: Callable[[Any], None], below: int) -> Callable[[Any], None]:
    """A step that fills an object; a placeholder in its place stays as it is."""

    def load(self: Any) -> None:
        if type(target_of_step(self, below)) is not Placeholder:
            step(self)
        else:
            drop_operands(self, below)

    return load


for _code, _operands in ((pickle.REDUCE, 2), (pickle.NEWOBJ, 2), (pickle.NEWOBJ_EX, 3)):
    SparingUnpickler.dispatch[_code[0]] = _wrap_sparing_step(_Python.dispatch[_code[0]], _operands)
for _code, _below in ((pickle.BUILD, 2), *_FILLS):
    SparingUnpickler.dispatch[_code[0]] = _wrap_sparing_fill(_Python.dispatch[_code[0]], _below)


class LendingUnpickler(Finding, _Python):  # type: ignore[misc]
    """Makes no object where there is one that code may have seen already, and fills that."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(_Python.dispatch)

    def __init__(
        self,
        stream: io.BytesIO,
        buffers: Iterator[Any],
        anchors: list[object],
        lent: Mapping[int, object],
        note: Callable[[object], None],
    ) -> None:
        super().__init__(stream, buffers, anchors)
        self.lent, self.note = lent, note
        self.lent_ids = frozenset(ids_of(lent.values()))
        self._unfilled = set(self.lent_ids)

    def fill(self, target: Any, step: Callable[[Any], None]) -> None:
        """Put into an object what the stream says; what code has seen in it until now goes."""
        if id(target) in self.lent_ids:
            if not can_be_filled(target):
                raise TypeError(f"a variable of type {type(target).__name__} cannot be filled after it was used")
            if id(target) in self._unfilled:
                self._unfilled.remove(id(target))
                set_content(target, ())
            step(self)
            self.note(target)
        else:
            step(self)


def _memoize(self: Any) -> None:
    self.stack[-1] = self.lent.get(len(self.memo), self.stack[-1])
    _Python.load_memoize(self)


LendingUnpickler.dispatch[pickle.MEMOIZE[0]] = _memoize


def _wrap_fill(step: Callable[[Any], None], below: int) -> Callable[[Any], None]:
    """A step that fills what lies so far below the top of the stack; 0: the items are on a stack of their own."""

    def load(self: Any) -> None:
        self.fill(target_of_step(self, below), step)

    return load


def _build_lent(self: Any) -> None:
    target = self.stack[-2]
    is_lent = id(target) in self.lent_ids
    if is_lent and (state := attributes_of(target)) is not None:
        state.clear()  # what code has seen in it until now
    _Python.dispatch[pickle.BUILD[0]](self)
    if is_lent:
        self.note(target)


LendingUnpickler.dispatch[pickle.BUILD[0]] = _build_lent

for _code, _below in _FILLS:
    LendingUnpickler.dispatch[_code[0]] = _wrap_fill(_Python.dispatch[_code[0]], _below)


def _wrap_tolerant_fill(step: Callable[[Any], None], below: int) -> Callable[[Any], None]:
    """A step that fills a container, where code of an item's class may fail: it says what the hash is."""

    def load(self: Any) -> None:
        target = target_of_step(self, below)
        depth = len(self.stack) - below + 1 if below else len(self.metastack[-1])
        levels = len(self.metastack) - (not below)
        try:
            step(self)
        except _ENDS_ALL:
            raise
        except Exception:  # noqa: BLE001  # foreign code runs here
            self.note(target)
            if len(self.metastack) > levels:
                self.pop_mark()
            del self.stack[depth:]

    return load


for _code, _below in _FILLS:
    TolerantUnpickler.dispatch[_code[0]] = _wrap_tolerant_fill(_Python.dispatch[_code[0]], _below)


def _load_build(self: Any) -> None:
    target = self.stack[-2]
    depth = len(self.stack)
    try:
        if self.is_broken(target):
            raise TypeError
        _Python.dispatch[pickle.BUILD[0]](self)
    except _ENDS_ALL:
        raise
    except Exception:  # noqa: BLE001  # foreign code runs here
        self.note(target)
        del self.stack[depth - 1 :]


TolerantUnpickler.dispatch[pickle.BUILD[0]] = _load_build


# -- put back what code of the notebook's changes while it is loaded: what it counts and registers, it has done already
#
# A `__setstate__` or a `__new__` may append to a list of its class, count in a global, keep the last object. What classes
# say and what such code uses is noted before it can run, or as it is loaded; afterwards all of it is as it was noted.

_MISSING = object()
# Loading an object may run these in any case, and those only where the class says itself how its objects are made.
_HOOKS = ("__setstate__", "__new__", "__hash__", "__eq__", "__setattr__", "__getattr__", "__getattribute__")
_HOOKS_OF_MAKING = ("__init__", "__post_init__")
# Making a class runs the first of its bases, and a person's call of a metaclass the others.
_HOOKS_OF_CLASSES = ("__init_subclass__", "__init__", "__new__", "__call__")
# Names in code that can get hold of the whole namespace.
_LEADS_TO_ALL_NAMES = frozenset(
    {
        *("globals", "exec", "eval", "modules", "import_module", "__import__", "__main__"),
        *("__globals__", "user_ns"),
    }
)
_MOST_BYTES = 1 << 25  # of an array whose content is kept
_MOST_OBJECTS = 10_000  # whose attributes are kept
_COUNTED_IDS = frozenset(map(id, (int, float, itertools.count)))
_SAY_HOW = ("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__")


class RandomNumbers:
    """Which random numbers come next, of Python and of numpy: code that runs meanwhile draws none of those."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._module: Any = sys.modules.get("numpy.random")
        self._numpy = None if self._module is None else self._module.get_state(legacy=False)

    def put_back(self) -> None:
        random.setstate(self._python)
        if self._module is not None:
            self._module.set_state(self._numpy)


class Guard:
    """Notes what is there, and puts it back."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self._namespace = namespace
        self._attributes: dict[tuple[int, str], tuple[type, object]] = {}
        self._names: dict[int, tuple[type, set[str]]] = {}
        self._arrays: dict[int, tuple[Any, Any]] = {}
        self._contents: dict[int, tuple[Any, Any]] = {}
        self._bindings: dict[str, object] = {}
        self._seen: dict[int, object] = {}
        self._before = dict(namespace)
        self._binds_any = False  # whether code that runs may bind any name: it gets hold of the namespace
        self._followed: dict[int, type] = {}  # classes of which there may be a million objects
        self.names_used: set[str] = set()  # by code that runs while objects are loaded

    def put_back(self) -> None:
        if self._binds_any:
            new = self._namespace.keys() - self._before.keys()
            self._bindings |= self._before | dict.fromkeys(new, _MISSING)
        for name, value in self._bindings.items():
            if self._namespace.get(name, _MISSING) is not value:
                if value is _MISSING:
                    self._namespace.pop(name, None)
                else:
                    self._namespace[name] = value
        for made, content in self._contents.values():
            if not _holds(made, content):
                set_content(made, content)
        for made, content in self._arrays.values():
            if made.shape == content.shape and made.tobytes() != content.tobytes():
                made[...] = content
        for (_, name), (kind, attribute) in self._attributes.items():
            if class_dict(kind).get(name, _MISSING) is not attribute or type(attribute) is itertools.count:
                type.__setattr__(kind, name, attribute)
        for kind, names in self._names.values():
            for name in [name for name in class_dict(kind) if name not in names and not name.startswith("__")]:
                type.__delattr__(kind, name)

    # -- what is noted

    def keep_namespace(self) -> None:
        """What each name is bound to."""
        self._before = dict(self._namespace)

    def keep_names(self, kind: type) -> None:
        """Which attributes a class has that was just made."""
        if not issubclass(type(kind), enum.EnumType):
            self._names.setdefault(id(kind), (kind, set(class_dict(kind))))

    def note_name(self, kind: type, name: str) -> None:
        """An attribute that belongs to such a class."""
        if id(kind) in self._names:
            self._names[id(kind)][1].add(name)

    def keep_class(self, kind: type) -> None:
        """What a class that lives says, and holds."""
        if id(kind) in self._seen or issubclass(type(kind), enum.EnumType):  # the masks of a flag grow with its members
            return
        self._seen[id(kind)] = kind
        self._names[id(kind)] = kind, set(class_dict(kind))
        attributes = {name: held for name, held in list(class_dict(kind).items()) if not name.startswith("__")}
        for name, attribute in attributes.items():
            self.keep_attribute(kind, name, attribute)
        self.keep_containers(attributes.values())

    def keep_attribute(self, kind: type, name: str, attribute: object) -> None:
        if not name.startswith("__"):
            self._attributes[id(kind), name] = (
                kind,
                copy.copy(attribute) if type(attribute) is itertools.count else attribute,
            )

    def keep_content(self, made: object, content: object) -> None:
        """What a container holds that was just loaded."""
        self._contents[id(made)] = made, content

    def keep_containers(self, values: Iterable[object]) -> None:
        """What these values hold, and those below them, if they are containers or objects of the notebook."""
        level = list(values)
        objects = 0
        while level:
            self.keep_arrays(level)
            for value in level:
                if type(value) is bytearray and id(value) not in self._contents:
                    self.keep_content(value, bytes(value))
            containers = containers_below(level, self._contents)
            for container in containers:
                self.keep_content(container, Content(container).items)
            level += islice(chain.from_iterable(map(items_of, containers)), _MOST_OBJECTS)
            states = {id(state): state for state in map(attributes_of, level) if state is not None}
            fresh = [state for item, state in states.items() if item not in self._contents][: _MOST_OBJECTS - objects]
            objects += len(fresh)
            for state in fresh:
                self.keep_content(state, state.copy())
            level = [held for state in fresh for held in state.values()]

    def keep_arrays(self, values: Iterable[Any]) -> None:
        ndarray = loaded_class("numpy", "ndarray")
        for value in values:
            if type(value) is not ndarray or id(value) in self._arrays:
                continue
            if value.flags.writeable and not value.dtype.hasobject and value.nbytes <= _MOST_BYTES:
                self._arrays[id(value)] = value, value.copy()

    def keep_registers(self, bases: Iterable[type], meta: type) -> list[object]:
        """What code of modules may note when a class is made of these bases: containers, which are returned, and attributes."""
        above = {id(base): base for one in (*bases, meta) for base in bases_of(one) if module_name(base) != "__main__"}
        hooks = [(base, _function(class_dict(base).get(name))) for base in above.values() for name in _HOOKS_OF_CLASSES]
        found: list[object] = []
        for base, function in hooks:
            if function is None or function.__globals__ is self._namespace:
                continue
            attributes = {name: held for name, held in list(class_dict(base).items()) if not name.startswith("__")}
            for name, attribute in attributes.items():
                if id(type(attribute)) in _COUNTED_IDS:
                    self.keep_attribute(base, name, attribute)
            used = {name for code in find_nested_codes(function.__code__) for name in code.co_names}
            global_values = (function.__globals__[name] for name in used & function.__globals__.keys())
            found += containers_below((*attributes.values(), *global_values))
        for container in found:
            if id(container) not in self._contents:
                self.keep_content(container, Content(container).items)
        return found

    def keep_globals(self, kind: type) -> None:
        """The variables that code of the class may change when its objects are loaded."""
        if id(kind) not in self._followed:
            self._followed[id(kind)] = kind
            self.keep_used(_codes_run(kind, self._namespace, self._seen))

    def keep_used(self, codes: Iterable[types.CodeType]) -> None:
        """The variables that code may change."""
        used: set[str] = set()
        for code in codes:
            used.update(code.co_names)
            self._binds_any = self._binds_any or not _LEADS_TO_ALL_NAMES.isdisjoint(code.co_names)
            for step in dis.get_instructions(code):
                if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                    self._bindings.setdefault(step.argval, self._namespace.get(step.argval, _MISSING))
        self.names_used |= used
        self.keep_containers(self._namespace[name] for name in used & self._namespace.keys())


def replace_in(containers: Iterable[object], instead: Mapping[int, object]) -> None:
    """Put other objects, by the ids of those before, into these containers."""
    for container in {id(one): one for one in containers}.values():
        items = Content(container).items
        if instead.keys().isdisjoint(_parts(container, items)):
            continue

        def now(item: Any) -> Any:
            return instead.get(id(item), item)

        if type(items) is dict:
            set_content(container, {now(key): now(value) for key, value in items.items()})
        elif issubclass(type(container), DICTS):
            set_content(container, [(now(key), now(value)) for key, value in items])
        else:
            set_content(container, list(map(now, items)))


def _codes_run(kind: type, namespace: dict[str, object], seen: dict[int, object]) -> Iterator[types.CodeType]:
    """The code that saving and loading an object may run, and what that calls, as far as names tell."""
    bases = [base for base in bases_of(kind) if module_name(base) == "__main__"]
    found = {name: attribute for base in reversed(bases) for name, attribute in class_dict(base).items()}
    hooks = [*_HOOKS]
    if any(kind is other for other in copyreg.dispatch_table) or not found.keys().isdisjoint(_SAY_HOW):
        hooks += (*_SAY_HOW, *_HOOKS_OF_MAKING)
        meta = [base for base in bases_of(type(kind)) if module_name(base) == "__main__"]
        found |= {f"{name} of the metaclass": held for base in meta for name, held in class_dict(base).items()}
        hooks.append("__call__ of the metaclass")
    todo = [found[name] for name in hooks if name in found]
    while todo:
        function = _function(todo.pop())
        if function is None or function.__globals__ is not namespace or id(function) in seen:
            continue
        seen[id(function)] = function
        for code in find_nested_codes(function.__code__):
            yield code
            todo += [found[name] for name in code.co_names if name in found]
            todo += [namespace[name] for name in code.co_names if name in namespace]


def names_run(kinds: Iterable[type], namespace: dict[str, object]) -> set[str]:
    """The names that such code uses."""
    seen: dict[int, object] = {}
    return {name for kind in kinds for code in _codes_run(kind, namespace, seen) for name in code.co_names}


def _function(found: Any) -> types.FunctionType | None:
    kind = type(found)
    if kind is staticmethod or kind is classmethod:
        found = found.__func__
    elif kind is property:
        found = found.fget
    return found if type(found) is types.FunctionType else None


def _holds(container: Any, content: Any) -> bool:
    """Whether a container holds just these objects, in this order."""
    if type(container) is bytearray:
        return bool(container == content)
    now = Content(container).items
    return len(now) == len(content) and _parts(container, now) == _parts(container, content)


def _parts(container: object, items: Any) -> list[int]:
    if type(items) is dict:
        return [*ids_of(items), *ids_of(items.values())]
    if issubclass(type(container), DICTS):
        return [id(part) for item in items for part in item]
    return list(ids_of(items))
