"""Lists that grow at their end: conversations, logs, event streams. Adding to one costs little, however long it is.

A list is a tail and sealed parts, each a record. Items are added to the tail alone. When it is full, the next item seals it: a part
with its items is stored once and never again, and a new tail begins. So the tail says all that readers compare: how
long the list is, and how often items of it were replaced. Only a replacement touches parts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast, overload

import msgspec
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import to_json

from agent_kernel.errors import InvalidRecordError, RecordError, StaleRecordError
from agent_kernel.records.collection import MOST_KEY, Change, Records, Subscription, exactly, together
from agent_kernel.records.documents import (
    call_with,
    checks_arguments,
    is_several,
    not_negative,
    require_function,
    require_text,
    require_watcher,
    require_whole,
    shown,
)
from agent_kernel.records.schema import (
    ROWS,
    TOO_DEEP,
    Plane,
    as_rows,
    describe,
    find_omission,
    is_too_deep,
    require_plane,
)
from agent_kernel.records.trees import LIST, LIST_PART

if TYPE_CHECKING:
    from agent_kernel.records.documents import Seal, Secret
    from agent_kernel.repository import Repository

S = TypeVar("S")

# Beside branches a tail is written anew with each item, as a value of whole pages of 4 KB: the shorter, the more of the last page
# stays empty. A commit for each change stores only the new pieces of it, with a list of all: the longer, the longer the list.
_PART_BYTES: Final[dict[Plane, int]] = {"store": 32 << 10, "branch": 64 << 10}


# Neither derives from Record, so that the items can come first: a part and the tails before it begin with the same bytes, and are
# stored as the same pieces.
class _Tail(BaseModel):
    """What is stored under the name of a list."""

    model_config = ConfigDict(ser_json_inf_nan="constants")
    collection: ClassVar[str] = LIST
    keeps_past: ClassVar[bool] = False
    is_growing: ClassVar[bool] = True
    items: list[JsonValue] = Field(default_factory=list[JsonValue])
    start: int = 0  # items before those here, in parts
    parts: int = 0
    size: int = 0  # bytes of the items here, as JSON
    cuts: int = 0  # how often items that were there were taken away
    cut: int = 0  # how many stayed when it last happened
    id: str

    @property
    def length(self) -> int:
        return self.start + len(self.items)


class _Part(BaseModel):
    """Items that stay as they are."""

    model_config = ConfigDict(ser_json_inf_nan="constants")
    collection: ClassVar[str] = LIST_PART
    keeps_past: ClassVar[bool] = False
    is_final: ClassVar[bool] = True
    items: list[JsonValue]
    start: int
    id: str


class ListChange(msgspec.Struct, frozen=True):
    """What happened to a list. The first `kept` items stayed; from there on `removed` items went away and `added` ones came."""

    kept: int
    removed: int
    added: tuple[Any, ...]
    time_ns: int
    actor: str = ""
    commit: str = ""  # 64 digits, where the change is part of a commit

    @property
    def length(self) -> int:
        """How many items there are after it."""
        return self.kept + len(self.added)


@checks_arguments
class RecordList:
    """A list of what JSON can hold, in a store. Safe from several threads, coroutines and processes.

    >>> import agent_kernel as ak
    >>> turns = ak.open("memory:").list("turns")
    >>> turns.append({"role": "user", "text": "hello"}, {"role": "model", "text": "hi"})
    2
    >>> turns.replace_tail(1, [{"role": "model", "text": "good day"}], expect=2)
    2
    >>> print(*(turn["text"] for turn in turns), sep="; ")
    hello; good day
    """

    def __init__(
        self,
        repo: Repository,
        name: str,
        *,
        plane: Plane = "store",
        user: str = "",
        branch: str | None = None,
        secret: Secret | Seal | None = None,
        actor: str = "",
        commit_each: bool = True,
        label: str = "",
        part_bytes: int | None = None,
    ) -> None:
        """See `Repository.list`.

        Args:
            label: what errors call it, where its name says more than a user knows.
            part_bytes: of items, as JSON, from which they become a full part; more where they repeat each other.
        """
        _require_not_empty(name)
        require_plane(plane)
        self.name = name
        self._label = label or name
        self._id = _list_id(user, name)
        self._user = user
        self._tails = Records(repo, _Tail, plane=plane, branch=branch, secret=secret, actor=actor)
        self._parts = Records(repo, _Part, plane=plane, branch=branch, secret=secret, actor=actor)
        self._commit_each = commit_each
        self._part_bytes = part_bytes or _PART_BYTES[plane if commit_each else "store"]

    def __repr__(self) -> str:
        return f"<RecordList {self._label!r}: {len(self):,} items>"

    def _repr_html_(self) -> str:
        """A table of its newest items, in a notebook."""
        try:
            many = len(self)
            items = self.items(limit=ROWS)
        except RecordError as error:
            return as_rows(self._label, [], [], note=str(error))
        first = max(many - len(items), 0)
        dicts = [cast("dict[str, Any]", item) if isinstance(item, dict) else {"item": item} for item in items]
        names = list(dict.fromkeys(name for one in dicts for name in one))
        rows = [[first + at, *(one.get(name) for name in names)] for at, one in enumerate(dicts)]
        omitted = [f"{first:,} earlier items"] if first else []
        about = f"{many:,} item{'s' if many != 1 else ''}"
        return as_rows(self._label, ["", *names], rows, about, omitted)

    # -- reading

    def __len__(self) -> int:
        return self._tail().length

    def __iter__(self) -> Iterator[Any]:
        """The items there are now, from the first on. What others change meanwhile is not seen.

        Raises:
            StaleRecordError: others removed items that were still to come.
        """
        tail = self._tail()
        for number in range(tail.parts):
            part, now = self._part(number, tail), self._tail()
            if now.cuts != tail.cuts and (now.cuts > tail.cuts + 1 or now.cut < part.start + len(part.items)):
                raise StaleRecordError("list", self._label, tail.cuts + 1, now.cuts + 1, "edition")
            yield from part.items
        yield from tail.items

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        """One item, or several; as of one moment.

        Raises:
            IndexError: there is no such item.
        """

        def read(tail: _Tail) -> Any:
            try:
                numbers = range(tail.length)[index]
            except (TypeError, ValueError) as error:  # a slice by steps of 0
                raise TypeError(f"an item is given by its number, or several by a slice, not {shown(index)}") from error
            except IndexError:
                many = f"{tail.length:,} item{'' if tail.length == 1 else 's'}"
                raise IndexError(f"the list {self._label!r} has {many}: there is no item {shown(index)}") from None
            if isinstance(numbers, range):
                if not numbers:
                    return []
                low, high = min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1]) + 1
                return self._read(tail, low, high)[:: numbers.step]
            return self._read(tail, numbers, numbers + 1)[0]

        return self._consistently(read)

    def items(self, limit: int | None = None) -> list[Any]:
        """All items, or the newest of them, in their order. Raises: TypeError, ValueError: the limit is no number of items."""
        if limit is not None:
            not_negative(limit, "limit")
        return self[:] if limit is None else self[-limit:] if limit > 0 else []

    # -- for who keeps what was read: full parts stay as they are as long as no item in them is replaced

    def mark(self) -> object:
        """What differs whenever the list does."""
        return self._tails.mark(self._id)

    def tail(self) -> tuple[int, list[Any]]:
        """How many full parts there are, and the items after them."""
        tail = self._tail()
        return tail.parts, tail.items

    def part(self, number: int) -> list[Any]:
        """The items of a full part. Raises: StaleRecordError: it is not there."""
        not_negative(number, "the number of a part")
        return self._part(number, self._tail()).items

    def fold(self, initial: S, step: Callable[[S, Any], S], until: int | None = None) -> S:
        """The state that events make: `step(step(initial, first), second)` and so on.

        Args:
            until: how many events to take; by default all.

        Raises:
            ValueError: `until` is negative.
        """
        if until is not None:
            not_negative(until, "until")
        state = initial
        for event in self if until is None else self[:until]:
            state = call_with(step, "fold", state, event)
        return state

    def _tail(self) -> _Tail:
        with self._named_errors():
            found: _Tail | None = self._tails.get(self._id)
        return found or _Tail.model_construct(id=self._id, items=[])

    def _part(self, number: int, tail: _Tail) -> _Part:
        with self._named_errors():
            found: _Part | None = self._parts.get(f"{self._id}#{number:08d}")
        if found is None:
            raise StaleRecordError("list", self._label, tail.length, self._tail().length, "length")
        return found

    def _consistently(self, read: Callable[[_Tail], S]) -> S:
        """What `read` makes of a tail, with the parts that belonged to it. Others may replace parts as they are read."""
        while True:
            tail = self._tail()
            try:
                result = read(tail)
            except StaleRecordError:
                if self._tail().cuts == tail.cuts:
                    raise
                continue
            if tail.start == 0 or self._tail().cuts == tail.cuts:
                return result

    def _read(self, tail: _Tail, low: int, high: int) -> list[Any]:
        """The items from `low` to before `high`, read from the last part back to the one that has the first of them."""
        if low >= tail.start:
            return tail.items[low - tail.start : high - tail.start]
        found: list[list[Any]] = [tail.items[: max(high - tail.start, 0)]]
        number = tail.parts - 1 if high >= tail.start else self._part_with(tail, high - 1)
        while True:
            part = self._part(number, tail)
            found.append(part.items[max(low - part.start, 0) : max(high - part.start, 0)])
            if part.start <= low:
                return [item for items in reversed(found) for item in items]
            number -= 1

    def _part_with(self, tail: _Tail, place: int) -> int:
        """The number of the sealed part that has an item."""
        low, high = 0, tail.parts - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self._part(middle, tail).start <= place:
                low = middle
            else:
                high = middle - 1
        return low

    # -- changing

    def append(self, *items: JsonValue) -> int:
        """Add items; how many there are then.

        Raises:
            InvalidRecordError: JSON cannot hold one of them. Nothing was stored.
        """
        return self.extend(items)

    def extend(self, items: Iterable[JsonValue]) -> int:
        """Add items; how many there are then.

        Raises:
            InvalidRecordError: JSON cannot hold one of them. TypeError: it is one text or one dict. Nothing was stored.
        """
        new = self._checked(items)

        def act() -> int:
            tail = self._tail()
            return self._add(tail, new) if new else tail.length

        return self.together(act, f"list: append to {self.name}")

    def replace_tail(self, start: int, items: Iterable[JsonValue] = (), *, expect: int | None = None) -> int:
        """Put items in the place of all from number `start` on; how many there are then. Readers see it whole or not at all.

        Args:
            expect: how many items there must be before.

        Raises:
            StaleRecordError: there are more or fewer. IndexError: there are fewer than `start`.
            InvalidRecordError: JSON cannot hold one of them. TypeError: it is one text or one dict. Nothing was stored.
        """
        require_whole(start, "start")
        if expect is not None:
            not_negative(expect, "expect")
        new = self._checked(items)

        def act() -> int:
            tail = self._tail()
            if expect is not None and expect != tail.length:
                raise StaleRecordError("list", self._label, expect, tail.length, "length")
            return self._replace(tail, start, new)

        return self.together(act, f"list: replace in {self.name}")

    def pop(self) -> Any:
        """Take the last item away and return it.

        Raises:
            IndexError: the list is empty.
        """

        def act() -> Any:
            tail = self._tail()
            if not tail.length:
                raise IndexError(f"pop from the empty list {self._label!r}")
            last = self._read(tail, tail.length - 1, tail.length)[0]
            self._replace(tail, tail.length - 1, [])
            return last

        return self.together(act, f"list: pop from {self.name}")

    def clear(self) -> None:
        """Take all items away."""
        self.replace_tail(0)

    def delete(self) -> None:
        """Take the list away, with its items and its name."""

        def act() -> None:
            for number in range(self._tail().parts):
                self._parts.delete(f"{self._id}#{number:08d}")
            self._tails.delete(self._id)

        self.together(act, f"list: delete {self.name}")

    def fork(self, name: str, until: int | None = None) -> RecordList:
        """Begin another list with the first items of this one, by default with all. On a branch both share what is stored.

        Raises:
            StaleRecordError: that list has items. IndexError: there are fewer than `until`.
        """
        if until is not None:
            require_whole(until, "until")
        _require_not_empty(name)
        other = self._named(name)

        def act() -> None:
            there, tail = other._tail(), self._tail()
            if there.length:
                raise StaleRecordError("list", name, 0, there.length, "length")
            end = tail.length if until is None else until
            if not 0 <= end <= tail.length:
                raise IndexError(f"the list {self._label!r} has {tail.length:,} items: the first {end:,} are not there")
            other._begin(there, self, tail, end)

        self.together(act, f"list: fork {self.name} as {name}")
        return other

    def together(self, act: Callable[[], S], message: str = "") -> S:
        """Read and change the list in several steps as one. `act` is called again where somebody else was faster."""
        require_function(act, "act")
        message = message or f"list: change {self.name}"
        return together(self._tails, act, message, may_lie_beside=not self._commit_each)

    def _checked(self, items: Iterable[JsonValue]) -> list[tuple[JsonValue, int]]:
        """The items with their sizes, checked before anything is done."""
        given: object = items
        if not is_several(given):
            raise TypeError(f"a list takes a list of items, not {shown(given)}: give [{shown(given)}]")
        found = list(given)
        try:
            checked = _Part(id="-", start=0, items=found).items
            sized = [(item, to_json(item, inf_nan_mode="constants")) for item in checked]
        except ValidationError as error:
            raise InvalidRecordError("list", self._label, describe(error)) from error
        except ValueError as error:  # half a character
            raise InvalidRecordError("list", self._label, str(error)) from error
        reason = find_omission(found, checked) if found != checked else ""
        if reason or any(is_too_deep(document) for _, document in sized):
            raise InvalidRecordError("list", self._label, reason or TOO_DEEP)
        return [(item, len(document)) for item, document in sized]

    def _replace(self, tail: _Tail, start: int, new: list[tuple[JsonValue, int]]) -> int:
        if not 0 <= start <= tail.length:
            raise IndexError(f"the list {self._label!r} has {tail.length:,} items: nothing starts at {start}")
        if start < tail.length:
            tail.cuts += 1
            tail.cut = start
        if start < tail.start:
            first = self._part_with(tail, start)
            part = self._part(first, tail)
            for number in range(first, tail.parts):
                self._parts.delete(f"{self._id}#{number:08d}")
            tail.start, tail.parts, tail.items = part.start, first, part.items
        tail.items = tail.items[: start - tail.start]
        tail.size = sum(map(_size_of, tail.items))
        return self._add(tail, new)

    def _begin(self, tail: _Tail, source: RecordList, theirs: _Tail, end: int) -> None:
        """Take over the first items of another list: whole parts as they are."""
        while tail.parts < theirs.parts:
            part = source._part(tail.parts, theirs)
            if part.start + len(part.items) > end:
                break
            self._parts.put(part.model_copy(update={"id": f"{self._id}#{tail.parts:08d}"}), user=self._user)
            tail.parts, tail.start = tail.parts + 1, part.start + len(part.items)
        self._add(tail, [(item, _size_of(item)) for item in source._read(theirs, tail.start, end)])

    def _add(self, tail: _Tail, new: list[tuple[JsonValue, int]]) -> int:
        for item, size in new:
            if tail.size + size > self._part_bytes and tail.items:
                part = _Part.model_construct(id=f"{self._id}#{tail.parts:08d}", start=tail.start, items=tail.items)
                self._parts.put(part, user=self._user)
                tail.start, tail.parts, tail.items, tail.size = tail.length, tail.parts + 1, [], 0
            tail.items.append(item)
            tail.size += size
        with self._named_errors():
            self._tails.put(tail, user=self._user)
        return tail.length

    @contextmanager
    def _named_errors(self) -> Generator[None]:
        """What is raised names the list, and not the record in which it lies."""
        try:
            yield
        except RecordError as error:
            error.collection, error.id = _Tail.collection, self._label
            raise

    # -- past and present

    def at(self, ref: str) -> RecordList:
        """The list as it was at a commit, to be read.

        Raises:
            RefNotFoundError, AmbiguousRefError: there is no such commit, or several.
            ValueError: the list lies beside all branches, where its past is not kept.
        """
        self._require_past()
        past = self._named(self.name)
        past.__dict__.update(_tails=self._tails.at(ref), _parts=self._parts.at(ref))
        return past

    def _named(self, name: str) -> RecordList:
        other = RecordList.__new__(RecordList)
        label = self._label if name == self.name else name
        other.__dict__.update(self.__dict__, name=name, _label=label, _id=_list_id(self._user, name))
        return other

    def history(self) -> Iterator[ListChange]:
        """What happened to the list, the newest change first.

        Raises:
            ValueError: the list lies beside all branches, where its past is not kept.
        """
        self._require_past()
        return (self._change(one, self.at(one.commit) if one.commit else self) for one in self._tails.history(self._id))

    def watch(self, call: Callable[[ListChange], object]) -> Subscription:
        """Call a function for each change, in this process at once, by others within a second. Close what this returns to end it."""
        require_watcher(call)
        return self._tails.watch(exactly(self._id), lambda change: call(self._change(change, self)))

    def _change(self, change: Change[_Tail], then: RecordList) -> ListChange:
        empty = _Tail.model_construct(id=self._id, items=[])
        old, new = change.old or empty, change.new or empty
        kept = old.length
        if new.cuts != old.cuts:  # of several cuts only the last one is known
            kept = min(new.cut, old.length) if new.cuts == old.cuts + 1 else 0
        added = then._read(new, kept, new.length)
        return ListChange(kept, old.length - kept, tuple(added), change.time_ns, change.actor, change.commit)

    def _require_past(self) -> None:
        if self._tails.schema.plane == "store":
            raise ValueError(
                f"the list {self._label!r} lies beside all branches and keeps no past: make it with plane='branch'"
            )


def names_of_lists(
    repo: Repository, start: str = "", *, plane: Plane = "store", branch: str | None = None
) -> list[str]:
    """The names of the lists of nobody in particular that begin so, in order."""
    first = place_of("", start)
    found = Records(repo, _Tail, plane=plane, branch=branch).names(first)
    return [one[1:].replace("%23", "#").replace("%2F", "/").replace("%25", "%") for one in found]


def _require_not_empty(name: str) -> None:
    if name == "":
        raise InvalidRecordError(_Tail.collection, "", "a list has a name, which is not empty")


def _size_of(item: JsonValue) -> int:
    return len(to_json(item, inf_nan_mode="constants"))


def _list_id(user: str, name: str) -> str:
    """The id of a list. Raises: InvalidRecordError: its parts would have ids that are too long."""
    id = place_of(user, name)
    if len(f"{_Part.collection}\0{id}#{0:08d}".encode("utf-8", "replace")) > MOST_KEY:
        raise InvalidRecordError(_Tail.collection, f"{name[:20]}…", f"its name has more than {MOST_KEY - 40} bytes")
    return id


def place_of(user: str, *names: str) -> str:
    """An id that stands for a name of a user. No two of them are the same, whatever characters they have.

    >>> place_of("ada", "notes"), place_of("", "ada/notes")
    ('ada/notes', '/ada%2Fnotes')
    """
    for one in (user, *names):
        require_text(one, "a name")
    return "/".join(name.replace("%", "%25").replace("/", "%2F").replace("#", "%23") for name in (user, *names))
