"""The streams of one stored group, read step by step: bare classes, methods, attributes, values."""

from __future__ import annotations

import collections
import io
import math
import os
import pickle
import pickletools
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

import msgspec

from agent_kernel.values import classes, restore
from agent_kernel.values.groups import Layout
from agent_kernel.values.introspection import class_dict, ids_of, referents
from agent_kernel.values.references import NUMPYS_NAN, find_own_code, is_code_of_notebook, load_nan
from agent_kernel.values.restore.objects import set_content


class StoredGroup(msgspec.Struct, frozen=True):
    """A group to load: `stream(i)` gives the bytes of its i-th blob, `buffer(i)` a handle that reads it into memory.

    `slots` says which of the group's `count` values `members` are: names may have left it. `needs` are the ids of classes
    that are stored beside it. `elsewhere` are those among them that left this group: it still has them as they were before.
    """

    members: tuple[str, ...]
    slots: tuple[int, ...]
    count: int
    layout: Layout
    stream: Callable[[int], bytes]
    buffer: Callable[[int], restore.StoredBytes]
    needs: frozenset[str] = frozenset()
    is_plain: bool = False  # its maker is not trusted: only plain data of it is built
    elsewhere: frozenset[str] = frozenset()


class Failure(msgspec.Struct, frozen=True):
    """Why a group could not be loaded. `class_id`: the class whose loading failed, if that was it.

    `rest` are those of its values, by name, that neither fail nor lead to what does.
    """

    error: BaseException
    class_id: str = ""
    rest: dict[str, object] = msgspec.field(default_factory=dict[str, object])


class Streams:
    """The streams of one group, loaded step by step with the memo kept between."""

    def __init__(self, group: StoredGroup) -> None:
        self.group = group
        self.loaded: tuple[object, ...] = ()
        self.failure: Failure | None = None
        self.is_done = False
        self.shared: dict[tuple[int, str], Any] = {}
        self.contents: list[tuple[object, Any]] = []  # what goes back into objects of the person's own modules
        self.pinned: dict[str, object] = {}  # by token, what was made for it
        layout = group.layout
        self.class_ids = tuple(uid for uid in layout.skeletons if uid not in group.elsewhere)
        # Classes that could not be saved have a place alone, as any value.
        self._skeleton_count = len(layout.skeletons) if layout.fills else 0
        self._unsaved_values: tuple[object, ...] = ()
        self._stream_count = self._skeleton_count + layout.streams
        self._unpicklers: dict[int, Any] = {}
        self._kind: Any = _plain_unpickler() if group.is_plain else Unpickler
        self._hashes_last = False
        if layout.fills_last and not group.is_plain:
            self._hash_last()
        self._lent: dict[int, object] = {}  # variables that code of the group has seen, by their place in the stream
        self._anchors: list[object] = []

    def skeletons(self) -> Iterable[tuple[str, Callable[[], type]]]:
        for position, uid in enumerate(self.group.layout.skeletons):
            if uid not in self.group.elsewhere:
                yield uid, self._maker(position)

    def _maker(self, position: int) -> Callable[[], type]:
        return lambda: classes.make(self._unpickler(position).load()) if self._skeleton_count else self._live(position)

    def _live(self, position: int) -> type:
        self._unsaved_values = self._unsaved_values or self._values()
        found = self._unsaved_values[position]
        if not isinstance(found, type):
            losses = "; ".join(reason for _, _, reason, _ in self.group.layout.losses)
            raise LookupError(f"it could not be saved: {losses}")
        return found

    def fill_methods(self) -> None:
        if self.group.layout.names:
            self._unpickler(self._skeleton_count).load()
        self._fill(self.group.layout.fills - 2 or 1)

    def fill_early(self) -> None:
        self._fill(1 if self.group.layout.fills > 2 else 0)

    def fill_attributes(self) -> None:
        self._fill(1)

    def _fill(self, pickles: int) -> None:
        for _ in range(pickles if self.group.layout.fills else 0):
            self._unpickler(self._skeleton_count).load()

    def begin_again(self) -> None:
        """Read from the start: a class that was needed had not been filled."""
        self.failure = None
        self.shared.clear()
        self._unpicklers.clear()
        self.contents = []
        self.pinned = {}

    def again(self) -> Streams:
        """The same group to read anew, with what was lent of it."""
        if self._hashes_last and not self._lent:
            return self.hashed_last()
        made = Streams(self.group)
        if self._lent:
            made._kind, made._lent, made._hashes_last = self._kind, self._lent, False
        return made

    def hashed_last(self) -> Streams:
        """The same group to read anew: what is in sets and dicts goes in when all that its hash may need is there."""
        made = Streams(self.group)
        made._hash_last()
        return made

    def _hash_last(self) -> None:
        from agent_kernel.values.hashing_last import HashingLastUnpickler

        self._kind, self._hashes_last = HashingLastUnpickler, True

    def _hash_anew(self) -> None:
        """Put the items of sets and dicts in again, where this way of reading filled them at once."""
        if self.group.layout.fills_last and not self._hashes_last and not self.group.is_plain:
            from agent_kernel.values.hashing_last import hash_anew

            for unpickler in self._unpicklers.values():
                hash_anew(unpickler.memo.values())

    def without_lost(self) -> Streams:
        """The same group to read anew: what cannot be made of an object that is lost is lost with it, and holds back nothing."""
        from agent_kernel.values.loader import SparingUnpickler

        made = Streams(self.group)
        made._kind, made._hashes_last = SparingUnpickler, False
        return made

    def named(self) -> Iterable[tuple[str, object]]:
        """The values that are loaded, with their names."""
        return zip(self.group.members, self.loaded, strict=True) if self.is_done else ()

    def lend(
        self, names: Collection[str], namespace: dict[str, object], note: Callable[[object], None]
    ) -> dict[str, object]:
        """Make variables that code of this very group wants, for as long as the group is loaded `again`: it uses these objects.

        Each holds what it will hold in the end, but for what needs objects that fail without it, until it is filled.

        Args:
            note: called with each container that is filled, of which code may change the content afterwards.
        """
        layout = self.group.layout
        if layout.fills or layout.form or layout.within or self.group.is_plain or self._unsaved_values:
            return {}
        known = self.failure, self.loaded, self.is_done
        self.begin_again()
        try:
            found = self._make_lent(names, namespace)
        finally:
            self.begin_again()
            self.failure, self.loaded, self.is_done = known
        from agent_kernel.values.loader import LendingUnpickler

        self._kind = partial(LendingUnpickler, lent=self._lent, note=note)
        return found

    def _make_lent(self, names: Collection[str], namespace: dict[str, object]) -> dict[str, object]:
        from agent_kernel.values.loader import TolerantUnpickler

        self._kind = TolerantUnpickler
        values = self._values()
        unpickler = self._unpicklers[0]
        places = {id(made): place for place, made in unpickler.memo.items()}
        found: dict[str, object] = {}
        for name, slot in zip(self.group.members, self.group.slots, strict=True):
            made = values[slot]
            if name not in names or unpickler.is_broken(made):
                continue
            if type(made) is collections.Counter:
                continue  # what the stream makes it of would not go into this one
            if not _leave_out_broken(made, unpickler.broken, namespace):
                continue
            found[name] = made
            held = (classes.attributes_of(made) or {}).values()
            below = [one for one in classes.containers_below([made, *held]) if classes.can_be_filled(one)]
            self._lent |= {places[id(one)]: one for one in (made, *below) if id(one) in places}
        return found

    def load_values(self) -> None:
        values = self._unsaved_values or self._values()
        self._hash_anew()
        self.loaded = tuple(values[slot] for slot in self.group.slots)
        self.is_done = True

    def load_rest(
        self, namespace: dict[str, object], make_classes: Callable[[Collection[str]], dict[str, type]]
    ) -> None:
        """Load what does not lead to the object that fails, where several names share the group. A class that holds it fails too.

        Args:
            make_classes: makes the classes of the group without their content, except those with these ids and those that cannot be made.
        """
        layout = self.group.layout
        if self.failure is None or len(self.group.slots) < 2 or self.group.is_plain:
            return
        if layout.skeletons and not layout.fills:
            return
        from agent_kernel.values.loader import TolerantUnpickler

        failure = self.failure
        lost: set[str] = set()
        while True:
            self.begin_again()
            self._kind, self._hashes_last = Unpickler, False
            made = make_classes(lost)
            self._kind = TolerantUnpickler
            for step in (self.fill_methods, self.fill_early, self.fill_attributes):
                step()
            values = self._values()
            broken = [found for unpickler in self._unpicklers.values() for found in getattr(unpickler, "broken", ())]
            more = {uid for uid, kind in made.items() if _holds_broken(kind, broken, namespace)}
            if not more:
                break
            lost |= more
        self._hash_anew()
        named = zip(self.group.members, (values[slot] for slot in self.group.slots), strict=True)
        rest = {name: value for name, value in named if not leads_to(value, broken, namespace)} if broken else {}
        self.fail(Failure(failure.error, failure.class_id, rest))

    def fail(self, failure: Failure) -> None:
        """Let go of what was loaded: others may need the room."""
        self.failure, self.loaded, self.is_done = failure, (), False
        self.shared.clear()
        self._unpicklers.clear()
        self._anchors = []
        self.contents = []
        self.pinned = {}
        if isinstance(failure.error, MemoryError):
            failure.error.__traceback__ = None  # its frames hold what did not fit

    def _values(self) -> tuple[object, ...]:
        layout = self.group.layout
        if layout.form:
            return self._load_segments(layout)
        if layout.within:
            return self._load_filled(layout)
        for _ in range(layout.lead):
            self._unpickler(self._skeleton_count).load()  # its memo holds it
        loaded: Any = self._unpickler(self._skeleton_count).load()
        if layout.names > 1:
            self._unpickler(self._skeleton_count).load()
        return loaded if self.group.count > 1 or layout.fills else (loaded,)

    def let_go(self) -> None:
        """Drop the memos: they hold all that was loaded, in a circle that only the garbage collector would find."""
        self._unpicklers.clear()

    def _load_segments(self, layout: Layout) -> tuple[object, ...]:
        if layout.long < 0:
            return (join(layout.form, [self._unpickler(number).load() for number in range(layout.streams)]),)
        first = self._unpickler(0)
        self._anchors = first.load()
        others: tuple[object, ...] = first.load()
        long = join(layout.form, [self._unpickler(number).load() for number in range(1, layout.streams)])
        return (*others[: layout.long], long, *others[layout.long :])

    def _load_filled(self, layout: Layout) -> tuple[object, ...]:
        """Values with long containers below them."""
        first = self._unpickler(0)
        self._anchors = first.load()
        longs: list[object] = []
        number = 1
        for form, count in layout.within:
            longs.append(join(form, [self._unpickler(at).load() for at in range(number, number + count)]))
            number += count
        first.pointed = longs
        loaded: Any = first.load()
        return loaded if self.group.count > 1 else (loaded,)

    def _unpickler(self, position: int) -> Any:
        if position not in self._unpicklers:
            stream = self.group.stream(position)
            self._unpicklers[position] = self._kind(io.BytesIO(stream), self._buffers(position), self._anchors)
        return self._unpicklers[position]

    def _buffers(self, position: int) -> Iterator[Any]:
        layout = self.group.layout
        if layout.buffers:
            first = sum(layout.buffers[:position])
            for number in range(first, first + layout.buffers[position]):
                stored = self.group.buffer(self._stream_count + number)
                yield restore.fresh_memory(stored) if number in layout.foreign else stored


class Finding:
    """Finds by number what segments have in common with others of their group, and the containers that they make up."""

    def __init__(self, stream: io.BytesIO, buffers: Iterator[Any], anchors: list[object]) -> None:
        super().__init__(stream, buffers=buffers)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        self.pointed = anchors
        self.nans: dict[str, float] = {}

    def persistent_load(self, pid: Any) -> object:
        return load_nan(pid, self.nans, self.find_nan) if type(pid) is str else self.pointed[pid]

    def find_nan(self, module: str, name: str) -> object:
        try:
            return getattr(import_module(module), name, None)
        except (Exception, SystemExit):  # noqa: BLE001  # the module is gone, or fails by now: it holds none to be the same as
            return None

    def find_class(self, module: str, name: str, /) -> Any:
        if name == _FOREIGN and module in ("pathlib", "pathlib._local"):
            from agent_kernel.values.restore import paths

            return paths.FOREIGN
        found: Any = super()
        try:
            value = found.find_class(module, name)
            own = find_own_code(module, name)
            return value if own is None or not is_code_of_notebook(value) else own
        except ModuleNotFoundError:
            if module not in _MOVED:
                raise
            return found.find_class(_MOVED[module], name)


def target_of_step(unpickler: Any, below: int) -> Any:
    """What a step of Python's unpickler fills: that many places below the top of the stack, or (0) below the mark."""
    return unpickler.stack[-below] if below else unpickler.metastack[-1][-1]


def drop_operands(unpickler: Any, below: int) -> None:
    """Leave such a step out: take from the stack what it would have put into its target."""
    if below:
        del unpickler.stack[1 - below :]
    else:
        unpickler.pop_mark()


def _plain_unpickler() -> type:
    from agent_kernel.values.plain_streams import PlainUnpickler

    return PlainUnpickler


class Unpickler(Finding, pickle.Unpickler):
    """Stops at the first error."""


# Where a newer Python keeps what an older one has elsewhere, and both show as the same; and where this package had classes
# of which stored variables may be.
_MOVED = {
    "pathlib._local": "pathlib",
    "agent_kernel.agents.cleanup": "agent_kernel.agents.executor",
    "agent_kernel.agents.execution_context": "agent_kernel.agents.execution",
    "agent_kernel.agents.outcomes": "agent_kernel.agents.namespace",
    "agent_kernel.agents.preview.forked_process": "agent_kernel.agents.preview",
    "agent_kernel.agents.preview.seeing": "agent_kernel.agents.preview",
    "agent_kernel.agents.races.comparison": "agent_kernel.agents.race_comparison",
    "agent_kernel.agents.races.outcome": "agent_kernel.agents.agent_undo",
    "agent_kernel.agents.races.race": "agent_kernel.agents.races",
    "agent_kernel.agents.racing.judging": "agent_kernel.agents.race_comparison",
    "agent_kernel.agents.racing.race": "agent_kernel.agents.races",
    "agent_kernel.agents.racing.raced": "agent_kernel.agents.agent_undo",
    "agent_kernel.agents.racing.standings": "agent_kernel.agents.race_comparison",
    "agent_kernel.agents.registry": "agent_kernel.agents.agent",
    "agent_kernel.agents.tasks": "agent_kernel.agents.run",
    "agent_kernel.bundle.key_commands": "agent_kernel.bundle.commands",
    "agent_kernel.bundle.page": "agent_kernel.bundle.report",
    "agent_kernel.bundle.shown": "agent_kernel.bundle.report",
    "agent_kernel.cells.files": "agent_kernel.cells",
    "agent_kernel.cells.notebook_file": "agent_kernel.cells",
    "agent_kernel.cells.script_file": "agent_kernel.cells",
    "agent_kernel.commands.diff": "agent_kernel.commands.show",
    "agent_kernel.commands.output": "agent_kernel.commands.describe",
    "agent_kernel.commands.refs": "agent_kernel.commands.checkout",
    "agent_kernel.commands.table": "agent_kernel.commands.scope",
    "agent_kernel.commands.timeline": "agent_kernel.commands.history",
    "agent_kernel.errors.base": "agent_kernel.errors",
    "agent_kernel.errors.doors": "agent_kernel.errors",
    "agent_kernel.errors.records": "agent_kernel.errors",
    "agent_kernel.errors.repository": "agent_kernel.errors",
    "agent_kernel.errors.session": "agent_kernel.errors",
    "agent_kernel.errors.storage": "agent_kernel.errors",
    "agent_kernel.errors.values": "agent_kernel.errors",
    "agent_kernel.panels.cards": "agent_kernel.panels.widget",
    "agent_kernel.records.locks": "agent_kernel.records.queue",
    "agent_kernel.records.sealing": "agent_kernel.records.documents",
    "agent_kernel.records.teams": "agent_kernel.records.queue",
    "agent_kernel.repository.blobs": "agent_kernel.repository.objects",
    "agent_kernel.repository.collecting": "agent_kernel.repository.upkeep",
    "agent_kernel.repository.garbage_collection": "agent_kernel.repository.upkeep",
    "agent_kernel.repository.merging": "agent_kernel.repository.merge",
    "agent_kernel.repository.pruning": "agent_kernel.repository.rewrite",
    "agent_kernel.repository.rewriting": "agent_kernel.repository.rewrite",
    "agent_kernel.repository.stats": "agent_kernel.repository.upkeep",
    "agent_kernel.repository.tree": "agent_kernel.repository.commits",
    "agent_kernel.repository.verification": "agent_kernel.repository.upkeep",
    "agent_kernel.repository.verifying": "agent_kernel.repository.upkeep",
    "agent_kernel.reproduction.report": "agent_kernel.reproduction.assessment",
    "agent_kernel.reproduction.selection": "agent_kernel.reproduction.causes",
    "agent_kernel.server.app": "agent_kernel.server",
    "agent_kernel.session.operations": "agent_kernel.session.committing",
    "agent_kernel.session.reports": "agent_kernel.session.committing",
    "agent_kernel.storage.protocol": "agent_kernel.storage",
    "agent_kernel.values.dump": "agent_kernel.values.aliases",
    "agent_kernel.verbs.agents": "agent_kernel.commands.agents",
    "agent_kernel.verbs.binding": "agent_kernel.commands.binding",
    "agent_kernel.verbs.checkout": "agent_kernel.commands.checkout",
    "agent_kernel.verbs.comparing": "agent_kernel.commands.show",
    "agent_kernel.verbs.contents": "agent_kernel.commands.contents",
    "agent_kernel.verbs.output": "agent_kernel.commands.describe",
    "agent_kernel.verbs.refs": "agent_kernel.commands.checkout",
    "agent_kernel.verbs.runs": "agent_kernel.commands.agents",
    "agent_kernel.verbs.table": "agent_kernel.commands.scope",
    "agent_kernel.verbs.timeline": "agent_kernel.commands.history",
    "agent_kernel.verbs.upkeep": "agent_kernel.commands.upkeep",
}


_FOREIGN = "PosixPath" if os.name == "nt" else "WindowsPath"  # a path that this operating system does not have


def _holds_broken(kind: type, broken: Sequence[object], namespace: dict[str, object]) -> bool:
    """Whether a class is one of these objects, or holds one."""
    is_broken = id(kind) in ids_of(broken)
    return is_broken or any(leads_to(held, broken, namespace) for held in list(class_dict(kind).values()))


def _leave_out_broken(made: Any, broken: Sequence[object], namespace: dict[str, object]) -> bool:
    """Leave out of a container, or of what an object holds, what leads to broken objects; False where that cannot be."""
    if not leads_to(made, broken, namespace):
        return True
    if classes.can_be_filled(made):
        set_content(made, _whole_items(made, broken, namespace))
        return True
    attributes = classes.attributes_of(made)
    if attributes is None:
        return False
    for name, held in list(attributes.items()):
        if leads_to(held, broken, namespace):
            if classes.can_be_filled(held):
                set_content(held, _whole_items(held, broken, namespace))
            else:
                del attributes[name]
    return not leads_to(made, broken, namespace)


def _whole_items(container: Any, broken: Sequence[object], namespace: dict[str, object]) -> Any:
    """What a container holds, as for `set_content`, without the items that lead to broken objects; of many nothing."""
    if len(container) > _MOST_ASKED:
        return ()
    if issubclass(type(container), dict):
        return {key: value for key, value in container.items() if not leads_to((key, value), broken, namespace)}
    return [item for item in container if not leads_to(item, broken, namespace)]


_MOST_ASKED = 1_000

_NOT_ENTERED = (type, types.ModuleType, types.CodeType)


def leads_to(value: object, broken: Sequence[object], namespace: dict[str, object]) -> bool:
    """Whether one of these objects lies below the value; functions are entered by their own state alone."""
    goals = set(map(id, broken))
    seen = {id(namespace)}
    todo: list[object] = [value]
    while todo:
        one = todo.pop()
        if id(one) in goals:
            return True
        if id(one) in seen or isinstance(one, _NOT_ENTERED):
            continue
        seen.add(id(one))
        if type(one) is types.FunctionType:
            todo += [one.__closure__, one.__defaults__, one.__kwdefaults__, one.__dict__]
        else:
            todo += referents((one,))
    return False


def join(form: str, parts: list[Any]) -> object:
    """Put segments together again."""
    if form == "dict":
        whole: dict[object, object] = {}
        for part in parts:
            whole.update(part)
        return whole
    items = [item for part in parts for item in part]
    return {"list": list, "tuple": tuple, "set": set}[form](items) if form != "list" else items


# -- read how a stored stream is built, without building it: no name in it is looked up and nothing of it runs
#
# A pickle is a program for a small stack machine. Here it is run on descriptions instead of objects: a call is noted with
# its arguments and not made. That is enough to tell which buffer is which column of a table.

MOST_STEPS: Final = 40_000  # there are two for each text


class Buffer(msgspec.Struct, frozen=True):
    """Memory that is stored beside the stream, by its position."""

    position: int


class Call(msgspec.Struct):
    """What would be called, with what, and the state it would be given."""

    name: str
    args: tuple[object, ...]
    state: list[object] = msgspec.field(default_factory=list[object])


class Name(msgspec.Struct, frozen=True):
    """Something that is found under a name: a class, a function, a constant."""

    text: str


class _Unreadable(Exception):  # noqa: N818 - never leaves this module
    """The stream does something that tables and arrays do not need."""


_BY_NAME: Final = "agent_kernel.values.restore.code.by_name"
_COLUMN: Final = "agent_kernel.values.restore.arrays.object_column"
_COLUMN_WITH_NANS: Final = f"{_COLUMN}_with_nans"
_LITERALS: Final = ("BININT", "LONG1", "LONG4", "BINFLOAT", "SHORT_BIN", "BINUNICODE", "BINBYTES")


def peek(stream: bytes, after: int = 0, most_steps: int = MOST_STEPS) -> object:
    """A description of a value in the stream; None where it holds what is not understood.

    Args:
        after: how many values to pass over. Later ones may speak of what they hold.
        most_steps: instructions of all these values; the stream of a table has a few hundred.
    """
    machine, source = _Machine(most_steps), io.BytesIO(stream)
    try:
        for _ in range(after):
            machine.run(source)
        return machine.run(source)
    except (_Unreadable, IndexError, KeyError, TypeError, ValueError):
        return None


def calls(found: object, name: str) -> list[Call]:
    """All calls of this name in a description, in the order of the stream."""
    made: list[Call] = []
    seen: set[int] = set()
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Call):
            if one.name == name:
                made.append(one)
            waiting += [*reversed(one.state), *reversed(one.args)]
        elif isinstance(one, (tuple, list)):
            waiting += reversed(cast("tuple[object, ...]", one))
    return made


class _Machine:
    def __init__(self, most_steps: int) -> None:
        self._steps_left = most_steps
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: list[object] = []
        self._buffers = 0

    def run(self, source: io.BytesIO) -> object:
        for code, argument, _ in pickletools.genops(source):
            if code.name == "STOP":
                return self._stack.pop()
            self._steps_left -= 1
            if self._steps_left < 0:
                break
            self._step(code.name, argument)
        raise _Unreadable

    def _step(self, code: str, argument: object) -> None:
        stack = self._stack
        match code:
            case "PROTO" | "FRAME" | "READONLY_BUFFER":
                pass
            case "POP":  # what a call was made for is its effect on what it was given: a state, as a rule
                (made,) = self._pop(1)
                if isinstance(made, Call) and len(made.args) == 2 and isinstance(made.args[0], Call):
                    made.args[0].state.append(made.args[1])
            case "MEMOIZE":
                self._memo.append(stack[-1])
            case "BINGET" | "LONG_BINGET":
                assert isinstance(argument, int)
                stack.append(self._memo[argument])
            case "NEXT_BUFFER":
                stack.append(Buffer(self._buffers))
                self._buffers += 1
            case "MARK":
                self._marks.append(len(stack))
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[code])
            case "EMPTY_LIST" | "EMPTY_DICT" | "EMPTY_SET":
                stack.append(list[object]())
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._pop(("EMPTY_TUPLE", "TUPLE1", "TUPLE2", "TUPLE3").index(code))))
            case "TUPLE":
                stack.append(tuple(self._since_mark()))
            case "APPENDS" | "SETITEMS" | "ADDITEMS":
                items = self._since_mark()
                self._fill(items)
            case "APPEND" | "SETITEM":
                self._fill(self._pop(1 if code == "APPEND" else 2))
            case "STACK_GLOBAL":
                module, name = self._pop(2)
                stack.append(Name(f"{module}.{name}"))
            case "REDUCE" | "NEWOBJ":
                called, args = self._pop(2)
                if not isinstance(called, Name) or not isinstance(args, tuple):
                    raise _Unreadable
                stack.append(_make_call(called.text, cast("tuple[object, ...]", args)))
            case "BUILD":
                (state,) = self._pop(1)
                made = stack[-1]
                if not isinstance(made, Call):
                    raise _Unreadable
                made.state.append(state)
            case "BINPERSID":
                (mark,) = self._pop(1)
                if type(mark) is not str:
                    raise _Unreadable
                stack.append(math.nan)
            case _ if code.startswith(_LITERALS):
                stack.append(argument)
            case _:
                raise _Unreadable

    def _fill(self, items: list[object]) -> None:
        into = self._stack[-1]
        if isinstance(into, Call):
            into.state.extend(items)
        elif isinstance(into, list):
            into.extend(items)  # pyright: ignore[reportUnknownMemberType]  # made above, of objects
        else:
            raise _Unreadable

    def _pop(self, count: int) -> list[object]:
        if not count:
            return []
        if len(self._stack) < count:
            raise _Unreadable
        taken = self._stack[-count:]
        del self._stack[-count:]
        return taken

    def _since_mark(self) -> list[object]:
        return self._pop(len(self._stack) - self._marks.pop())


def _make_call(name: str, args: tuple[object, ...]) -> Call | Name | float:
    """What a call makes: of a function that only looks a name up, what stands under that name. Which NaN one is does not count."""
    if name == _BY_NAME:
        text = ".".join(map(str, args))
        return math.nan if text == NUMPYS_NAN else Name(text)
    return Call(_COLUMN, args[:-1]) if name == _COLUMN_WITH_NANS else Call(name, args)
