"""Where two stored versions of an array or a table differ: which columns, how many values, in which rows.

The memory of arrays is stored beside the pickle stream, in pieces that go by their content. Pieces of the same id are the
same and are not even read; of the others the bytes are compared. Nothing is unpickled, and no value is shown.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, compress, count, islice
from math import isnan, prod
from operator import ne
from typing import Final, NamedTuple, TypeAlias, cast

import msgspec

from agent_kernel.errors import StoreError
from agent_kernel.repository import Blob, Entry, Kind, Manifest, ObjectId
from agent_kernel.repository.objects import PIECE, chunks_of, read_blob
from agent_kernel.session import Repository
from agent_kernel.text import MORE, clean, count_noun, cut, plural
from agent_kernel.values import previews
from agent_kernel.values.groups import decode_layout
from agent_kernel.values.previews import Preview
from agent_kernel.values.streams import Buffer, Call, Name, calls, peek

# -- what a stored array or table is made of, told from its pickle stream without building anything
#
# The stream is read as a description (`values.streams`): which calls with which arguments, and which of the buffers stored
# beside it is the memory of which array.

ARRAY: Final = "agent_kernel.values.restore.arrays.array"
OBJECTS: Final = "agent_kernel.values.restore.arrays.object_column"
_BLOCK: Final = "pandas._libs.internals._unpickle_block"
_SHARED_BLOCK: Final = "agent_kernel.values.restore.frames.block"
_SERIES: Final = "pandas.core.internals.managers.SingleBlockManager"
_MOST_STREAM: Final = 1_000_000  # bytes
_MOST_POSITIONS: Final = 100_000  # columns of one block
_MOST_ATOMS: Final = 16_000_000  # bytes
_MOST_ATOM_STEPS: Final = 400_000

Part: TypeAlias = "tuple[Call, int]"  # a block of a table, and which row of it is the column


class Stored(msgspec.Struct, frozen=True):
    """One stored version."""

    repo: Repository
    blobs: tuple[Blob, ...]  # of the buffers
    value: object  # its description
    atoms: dict[int, tuple[object, ...]] = msgspec.field(default_factory=dict[int, "tuple[object, ...]"])  # once read


def read_stored(repo: Repository, entry: Entry) -> Stored | None:
    """Read the value of an entry as it is stored. Returns None if it is in several parts, or of a kind that is not read."""
    manifest: Manifest = repo.read_manifest(entry)
    layout = decode_layout(manifest.layout)
    if layout.skeletons or layout.streams != 1 or layout.form or not manifest.blobs:
        return None
    stream = manifest.blobs[0]
    if stream.size > _MOST_STREAM:
        return None
    value = peek(bytes(read_blob(repo.objects, stream)), layout.lead + (layout.names > 0))
    if manifest.slots > 1:  # the values of all names that share something
        values = items_of(value)
        value = values[entry.slot] if 0 <= entry.slot < len(values) == manifest.slots else None
    return None if value is None else Stored(repo, manifest.blobs[1:], value)


def columns_of(side: Stored) -> dict[int, Part] | None:
    """By position: the block that holds the column. None if pandas does not store a table so."""
    if calls(side.value, _SERIES):
        return _single(side)
    found: dict[int, Part] = {}
    for block in _blocks(side.value):
        if len(block.args) != 3:
            return None
        positions = _column_positions(side, block.args[1])
        if positions is None:
            return None
        found |= {position: (block, row) for row, position in enumerate(positions)}
    return found or None


def _blocks(value: object) -> list[Call]:
    """The blocks of a table; those that share memory with others are made by a function of their own."""
    shared = [
        Call(_BLOCK, items_of(block.args[1]))
        for block in calls(value, _SHARED_BLOCK)
        if len(block.args) == 3 and block.args[0] == Name(_BLOCK)
    ]
    return calls(value, _BLOCK) + shared


def _single(side: Stored) -> dict[int, Part] | None:
    """The one array of a series: of its block, or as earlier releases wrote it, in the state of its manager."""
    managers = calls(side.value, _SERIES)
    if len(managers) != 1:
        return None
    if managers[0].args:
        blocks = _blocks(managers[0])
        return {0: (blocks[0], 0)} if len(blocks) == 1 and blocks[0].args else None
    state = items_of(managers[0].state[0]) if managers[0].state else ()
    values = items_of(state[1]) if len(state) > 1 else ()
    return {0: (Call(_BLOCK, (values[0],)), 0)} if len(values) == 1 else None


def _column_positions(side: Stored, where: object) -> Sequence[int] | None:
    if not isinstance(where, Call):
        return None
    if where.name == "builtins.slice":
        bounds = integers(where.args)
        positions = range(bounds[0], bounds[1], bounds[2]) if len(bounds) == 3 and bounds[2] else range(0)
        return positions if 0 < len(positions) <= _MOST_POSITIONS else None
    if where.name == ARRAY and where.args[1] == "<i8" and isinstance(where.args[0], Buffer):
        blob = side.blobs[where.args[0].position]
        return list(memoryview(bytes(read_blob(side.repo.objects, blob))).cast("q"))
    return None


def only_call(values: object, name: str) -> Call | None:
    """The only call of this name. Returns None if there are several, or no such call."""
    found = calls(values, name)
    return found[0] if len(found) == 1 else None


def atoms_of(side: Stored, array: Call) -> tuple[object, ...] | None:
    """The distinct objects of a long array of them, described; None where they are too many, or cannot be read."""
    codes, atoms = array.args[:2]
    shape = integers(array.args[2])
    if not isinstance(codes, Buffer) or not isinstance(atoms, Buffer) or not shape or min(shape) < 0:
        return None
    if atoms.position not in side.atoms:
        blob = side.blobs[atoms.position]
        stream = bytes(read_blob(side.repo.objects, blob)) if blob.size <= _MOST_ATOMS else b""
        side.atoms[atoms.position] = items_of(peek(stream, most_steps=_MOST_ATOM_STEPS) if stream else None)
    found, size = side.atoms[atoms.position], side.blobs[codes.position].size
    fits = size == prod(shape) * code_size(len(found)) if size else prod(shape) == len(found)
    return found if found and fits else None


def code_size(distinct: int) -> int:
    """The bytes of a code of so many objects, as `restore.arrays.code_type` says."""
    return next((size for size in (1, 2, 4) if distinct <= 1 << 8 * size), 8)


def items_of(found: object) -> tuple[object, ...]:
    """The items of a tuple or list in a description; nothing for anything else."""
    return tuple(cast("Sequence[object]", found)) if isinstance(found, (tuple, list)) else ()


def integers(found: object) -> tuple[int, ...]:
    """The whole numbers among the items."""
    return tuple(one for one in items_of(found) if isinstance(one, int))


def is_same(before: Stored, after: Stored, old: object, new: object, but: frozenset[int] = frozenset()) -> bool:
    """Whether two descriptions, and the buffers that they speak of, are equal. `but`: calls to pass over, by identity."""
    return _is_same(before, after, old, new, but, set())


def _is_same(
    before: Stored, after: Stored, old: object, new: object, but: frozenset[int], seen: set[tuple[int, int]]
) -> bool:
    """`seen`: pairs that are equal if all else is. A stream may speak of the same tuple very often."""
    if isinstance(old, (Call, tuple, list)):
        pair = id(cast("object", old)), id(new)
        if pair in seen:
            return True
        seen.add(pair)
    if isinstance(old, Buffer) and isinstance(new, Buffer):
        # The same content is stored under the same ids, cut at the same places.
        return before.blobs[old.position] == after.blobs[new.position]
    if isinstance(old, Call) and isinstance(new, Call):
        if id(old) in but and id(new) in but:
            return True
        parts = ((old.args, new.args), (old.state, new.state))
        return old.name == new.name and all(_is_same(before, after, one, other, but, seen) for one, other in parts)
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        one, other = items_of(cast("object", old)), items_of(cast("object", new))
        return len(one) == len(other) and all(
            _is_same(before, after, *both, but, seen) for both in zip(one, other, strict=True)
        )
    if isinstance(old, float) and isinstance(new, float) and isnan(old):
        return isnan(new)  # the missing value of a column
    return old == new


# -- which elements of two stored arrays differ, found piece by piece: pieces of the same id are not even read

_MOST_COMPARED: Final = 64_000_000  # bytes of both sides; of more the first pieces that differ are compared
_LONGEST_S: Final = 1.0  # of work, after which no other piece is compared
_MOST_LISTED: Final = 200

_Read: TypeAlias = Callable[[], bytes]


class Differences(msgspec.Struct):
    """How many elements differ, the first and the last of them, and where the first hundreds are.

    `uncompared`: elements of pieces that differ and were not compared, because that takes long.
    """

    many: int = 0
    first: int = -1
    last: int = -1
    positions: list[int] = msgspec.field(default_factory=list[int])
    uncompared: int = 0

    def add(self, position: int, limit: int) -> None:
        if 0 <= position < limit and position != self.last:  # one element may be compared in several parts
            self.many += 1
            self.last = position
            if self.first < 0:
                self.first = position
            if len(self.positions) < _MOST_LISTED:
                self.positions.append(position)

    def add_all(self, positions: list[int], shift: int, limit: int) -> None:
        """The same for many in order, each of another element. `shift`: what has to be added to each place."""
        positions = positions[bisect_left(positions, -shift) : bisect_left(positions, limit - shift)]
        if not positions:
            return
        self.many += len(positions)
        self.last = positions[-1] + shift
        if self.first < 0:
            self.first = positions[0] + shift
        self.positions += [position + shift for position in positions[: max(0, _MOST_LISTED - len(self.positions))]]

    def describe(self, total: int, noun: str, row: int) -> str:
        """`2 of 1,000 rows differ, between rows 5 and 17`; a single one is `row 5`. `row`: elements in one; 0: unknown."""
        if self.uncompared:
            least = f"at least {self.many:,} of {plural(total, noun)} differ"
            return f"{least} ({min(self.uncompared, total):,} more lie in pieces that differ and were not compared)"
        text = f"{self.many:,} of {plural(total, noun)} {'differs' if self.many == 1 else 'differ'}"
        if not row:
            return text
        first, last = self.first // row, self.last // row
        return f"{text}: row {first:,}" if first == last else f"{text}, between rows {first:,} and {last:,}"


def compare_memory(repo: Repository, one: Blob, other: Blob, whole: int, start: int, many: int) -> Differences | None:
    """How `many` elements from `start` on differ, counted from there; None where that cannot be told.

    Args:
        whole: how many elements the memory holds in all.
    """
    if not whole or one.size != other.size or other.size % whole:
        return None
    item = other.size // whole
    pieces = _pieces(repo, one, other, start * item, (start + many) * item)
    if pieces is None:
        return None
    found = Differences()
    uncompared, end_s = pieces.uncompared, time.thread_time() + _LONGEST_S
    for at, size, first, second in pieces.compared:
        if time.thread_time() > end_s:
            uncompared += size
            continue
        old, new = first(), second()
        unit = next(size for size in (8, 4, 2, 1) if not (item % size or at % size or len(old) % size))
        differ = compress(count(), map(ne, in_units(old, unit), in_units(new, unit)))
        if unit == item:
            found.add_all(list(differ), at // item - start, many)
        else:
            for position in differ:
                found.add((at + position * unit) // item - start, many)
    found.uncompared = uncompared // item
    return found


def compare_numbers(old: Iterable[int], new: Iterable[int], many: int) -> Differences:
    """How many of `many` elements differ. Those of the same number are equal."""
    found = Differences()
    found.add_all(list(compress(count(), map(ne, old, new))), 0, many)
    return found


def in_units(piece: bytes, size: int) -> memoryview[int]:
    """The bytes as numbers of this size: fewer to compare."""
    view = memoryview(piece)
    return view.cast("Q") if size == 8 else view.cast("I") if size == 4 else view.cast("H") if size == 2 else view


class _Pieces(NamedTuple):
    """Where each begins, how long it is, and what reads either side; and the bytes of those that are not compared."""

    compared: Sequence[tuple[int, int, _Read, _Read]]
    uncompared: int = 0


def _pieces(repo: Repository, one: Blob, other: Blob, low: int, high: int) -> _Pieces | None:
    """The pieces between two offsets that differ; None: they are cut at other places."""
    if one.inline is not None or other.inline is not None:
        return _Pieces([(0, one.size, partial(_whole, repo, one), partial(_whole, repo, other))])
    sides = [chunks_of(repo.objects, blob) for blob in (one, other)]
    lengths = [[size for _, size in side] for side in sides]
    if lengths[0] != lengths[1]:
        return None
    starts = accumulate(lengths[0], initial=0)
    differing = [
        (at, size, first, second)
        for at, (first, size), (second, _) in zip(starts, *sides, strict=False)
        if first != second and at < high and at + size > low
    ]
    room = _MOST_COMPARED // (2 * PIECE)
    compared = [
        (at, size, partial(_chunk, repo, first), partial(_chunk, repo, second))
        for at, size, first, second in differing[:room]
    ]
    return _Pieces(compared, sum(size for _, size, _, _ in differing[room:]))


def _whole(repo: Repository, blob: Blob) -> bytes:
    return bytes(read_blob(repo.objects, blob))


def _chunk(repo: Repository, id: ObjectId) -> bytes:
    return repo.objects.get(Kind.CHUNK, id)


_MOST_COLUMNS: Final = 8  # that are told
_MOST_CODES: Final = 4_000_000  # objects of a column
_OF_A_CLASS: Final = "agent_kernel.values.restore.arrays.array_subclass"
_VIEWS: Final = ("agent_kernel.values.restore.arrays.view", "agent_kernel.values.restore.arrays.object_view")
_ARRAYS: Final = (ARRAY, OBJECTS, _OF_A_CLASS)


def differences(repo: Repository, old: Entry, new: Entry, summary: Preview) -> tuple[str, ...]:
    """Lines that say where the contents differ; none where that cannot be told. `summary` is that of the new one."""
    sides = [read_stored(repo, entry) for entry in (old, new)]
    before, after = sides
    if before is None or after is None:
        return ()
    try:
        if summary.kind in ("frame", "series"):
            return tuple(_in_table(before, after, summary))
        if summary.kind == "object":
            return tuple(f"~ {path}: {was} → {now}" for path, was, now in widget_changes(before, after))
        return tuple(_in_array(before, after))
    except (StoreError, IndexError, RecursionError, ValueError):
        return ()  # damaged, or made by nobody's pickler: the previews still say what they say


# -- what changed in the widgets within a widget: those that it holds, and how it looks

_WIDGET: Final = "agent_kernel.values.restore.widgets.widget"
_MOST_WIDGETS: Final = 1_000
_MOST_WITHIN: Final = 10  # changes that are told
_DEEPEST: Final = 12
_ECHOES: Final = ("index", "label")  # of a selection, beside its value
_LONGEST: Final = 60
_FEW: Final = 6  # items of a tuple


def widget_changes(before: Stored, after: Stored) -> tuple[tuple[str, str, str], ...]:
    """Where, what was, what is: `children[0].value`, `'a'`, `'b'`. Its own traits are not among them: its summary has these."""
    if not (_is_widget(before.value) and _is_widget(after.value)):
        return ()
    found = _Within(before, after).changes(cast("Call", before.value), cast("Call", after.value), "", 0)
    return tuple(islice((one for one in found if "." in one[0] or "[" in one[0]), _MOST_WITHIN))


class _Within:
    """Goes through two versions of a widget side by side."""

    def __init__(self, before: Stored, after: Stored) -> None:
        self._sides = before, after
        self._seen: set[tuple[int, int]] = set()  # a widget may hold the one that holds it

    def changes(self, old: Call, new: Call, path: str, depth: int) -> Iterator[tuple[str, str, str]]:
        pair = id(old), id(new)
        if pair in self._seen or len(self._seen) >= _MOST_WIDGETS or depth > _DEEPEST:
            return
        self._seen.add(pair)
        if old.args[:1] != new.args[:1]:
            yield path, _kind_of(old), _kind_of(new)
            return
        was, now = _traits_of(old), _traits_of(new)
        hides = any(map(_is_of_a_secret, ((old, was), (new, now))))
        differing = [name for name in now if not name.startswith("_") and not self._are_same(was, now, name)]
        for name in differing:
            if name in _ECHOES and "value" in differing:
                continue
            yield from self._between(was.get(name), now[name], f"{path}.{name}".lstrip("."), depth, hides=hides)

    def _are_same(self, was: dict[str, object], now: dict[str, object], name: str) -> bool:
        return name in was and is_same(*self._sides, was[name], now[name])

    def _between(
        self, old: object, new: object, path: str, depth: int, *, hides: bool
    ) -> Iterator[tuple[str, str, str]]:
        if _is_widget(old) and _is_widget(new):
            yield from self.changes(cast("Call", old), cast("Call", new), path, depth + 1)
            return
        was, now = items_of(old), items_of(new)
        if any(map(_is_widget, (*was, *now))):
            if len(was) != len(now):
                yield path, count_noun(len(was), "item"), count_noun(len(now), "item")
                return
            for at, both in enumerate(zip(was, now, strict=True)):
                yield from self._between(*both, f"{path}[{at}]", depth, hides=hides)
        elif was != now or not was:
            hides = hides or previews.names_a_secret(path.rpartition(".")[2])
            yield (path, previews.MASK, previews.MASK) if hides else (path, _in_short(old), _in_short(new))


def _is_widget(found: object) -> bool:
    return isinstance(found, Call) and found.name == _WIDGET


def _kind_of(widget: Call) -> str:
    kind = widget.args[0] if widget.args else None
    return clean(kind.text.rpartition(".")[2])[:_LONGEST] if isinstance(kind, Name) else MORE


def _traits_of(widget: Call) -> dict[str, object]:
    """A widget's state is whether it is open, and its traits as names and values by turns."""
    state = items_of(widget.state[0]) if widget.state else ()
    items = items_of(state[1]) if len(state) > 1 else ()
    return {name: value for name, value in zip(items[::2], items[1::2], strict=False) if isinstance(name, str)}


def _is_of_a_secret(one: tuple[Call, dict[str, object]]) -> bool:
    widget, traits = one
    described = traits.get("description")
    return previews.names_a_secret(_kind_of(widget)) or (
        isinstance(described, str) and previews.names_a_secret(described)
    )


def _in_short(found: object) -> str:
    if found is None or isinstance(found, (bool, int, float)):
        return str(found)
    if isinstance(found, str):
        return cut(clean(f"'{previews.mask_text(found[:1_000])}'"), _LONGEST)
    items = items_of(found)
    if not items or any(isinstance(one, (Call, tuple, list)) for one in items[:_FEW]):
        return _kind_of(found) if isinstance(found, Call) and _is_widget(found) else MORE
    more = [MORE] if len(items) > _FEW else []
    return cut(f"({', '.join([*map(_in_short, items[:_FEW]), *more])})", _LONGEST)


def _in_array(before: Stored, after: Stored) -> Iterator[str]:
    old, new = before.value, after.value
    if not (isinstance(old, Call) and isinstance(new, Call) and old.name == new.name and new.name in _ARRAYS):
        return
    arrays = _both(old, new)
    if arrays is None or not is_same(before, after, old, new, frozenset(map(id, arrays))):
        return
    was, now = arrays
    shape, order = now.args[2], now.args[3]
    total = prod(integers(shape))
    if was.args[2:4] != (shape, order):
        return
    found = _compare_arrays(before, after, was, now, 0, total)
    if found is not None and (found.many or found.uncompared):
        row = prod(integers(shape)[1:])  # elements of one step along the first axis, as they lie in memory
        yield found.describe(total, "value", row if len(integers(shape)) == 1 or order == "C" else 0)


def _in_table(before: Stored, after: Stored, summary: Preview) -> Iterator[str]:
    old, new = columns_of(before), columns_of(after)
    if old is None or new is None or old.keys() != new.keys():
        return
    lines = [line for position in sorted(new) if (line := _in_column(before, after, position, old, new, summary))]
    yield from lines[:_MOST_COLUMNS]
    if len(lines) > _MOST_COLUMNS:
        yield f"… and {plural(len(lines) - _MOST_COLUMNS, 'column')} more"


def _in_column(
    before: Stored, after: Stored, position: int, old: dict[int, Part], new: dict[int, Part], summary: Preview
) -> str:
    named = summary.kind == "frame"
    known = position < len(summary.columns)
    column = f"column {clean(summary.columns[position].name) if known else position}: " if named else ""
    if is_same_column(before, after, old[position], new[position]):
        return ""
    found = compare_columns(before, after, old[position], new[position])
    if found is None:
        return f"{column}contents differ"
    arrays = _both(old[position][0].args[0], new[position][0].args[0])
    rows = integers(arrays[1].args[2])[-1] if arrays is not None else 0
    return column + found.describe(rows, "row" if named else "value", 1) if found.many or found.uncompared else ""


def is_same_column(before: Stored, after: Stored, old: Part, new: Part) -> bool:
    """Whether a column's block is stored as it was."""
    return old[1] == new[1] and is_same(before, after, old[0].args[0], new[0].args[0])


def compare_columns(before: Stored, after: Stored, old: Part, new: Part) -> Differences | None:
    """Which rows of a column differ; None where that cannot be told from its memory."""
    (was, was_row), (now, row) = old, new
    arrays = _both(was.args[0], now.args[0])
    if arrays is None or row != was_row or not _are_alike(*arrays):
        return None
    former, dense = arrays
    if not is_same(before, after, was.args[0], now.args[0], frozenset([id(former), id(dense)])):
        return None  # also what its values stand for
    rows = integers(dense.args[2])[-1]
    return _compare_arrays(before, after, former, dense, row * rows, rows)


def _both(old: object, new: object) -> tuple[Call, Call] | None:
    """The one array that holds the values on either side: of plain memory, or of objects; none where they are views."""
    if any(calls(side, view) for side in (old, new) for view in _VIEWS):
        return None  # of the memory that they look at other tables may hold the rest
    for name in (ARRAY, OBJECTS):
        was, now = only_call(old, name), only_call(new, name)
        if was is not None and now is not None and len(was.args) > 3 and len(now.args) > 3:
            return was, now
    return None


def _are_alike(one: Call, other: Call) -> bool:
    """Whether both lie in memory in the same way, column after column."""
    shape = integers(one.args[2])
    return bool(shape) and one.args[2:4] == other.args[2:4] and (len(shape) == 1 or one.args[3] == "C")


def _compare_arrays(before: Stored, after: Stored, old: Call, new: Call, start: int, many: int) -> Differences | None:
    was, now = old.args[0], new.args[0]
    if not isinstance(was, Buffer) or not isinstance(now, Buffer):
        return None
    if new.name == OBJECTS:
        return _compare_objects(before, after, old, new, start, many)
    if old.args[1] != new.args[1]:  # of another kind
        return None
    whole = prod(integers(new.args[2]))
    return compare_memory(after.repo, before.blobs[was.position], after.blobs[now.position], whole, start, many)


def _compare_objects(before: Stored, after: Stored, old: Call, new: Call, start: int, many: int) -> Differences | None:
    """Which objects differ: equal ones may have other codes on either side, so those are numbered anew."""
    was, now = atoms_of(before, old), atoms_of(after, new)
    if was is None or now is None or many > _MOST_CODES:
        return None
    numbers = _Numbers()
    first, second = [numbers.of(atom) for atom in was], [numbers.of(atom) for atom in now]
    one, other = _codes(before, old, len(was), start, many), _codes(after, new, len(now), start, many)
    return compare_numbers(map(first.__getitem__, one), map(second.__getitem__, other), many)


def _codes(side: Stored, array: Call, distinct: int, start: int, many: int) -> Sequence[int]:
    codes = array.args[0]
    blob = side.blobs[codes.position] if isinstance(codes, Buffer) else None
    if blob is None or not blob.size:  # all are distinct
        return range(start, start + many)
    size = code_size(distinct)
    return in_units(bytes(read_blob(side.repo.objects, blob)), size)[start : start + many]


class _Numbers:
    """Gives descriptions of atoms that nobody could tell apart the same number: 1 and True are two."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}
        self._seen: dict[int, int] = {}  # by id: a stream may speak of the same tuple very often

    def of(self, atom: object) -> int:
        if isinstance(atom, str):
            return self._known.setdefault(atom, len(self._known))
        if not isinstance(atom, (Call, tuple, list)):
            key = (type(atom), repr(atom) if isinstance(atom, float) else atom)
            return self._known.setdefault(key, len(self._known))
        found = self._seen.get(id(cast("object", atom)))
        if found is None:
            name = atom.name if isinstance(atom, Call) else ""
            parts = (*atom.args, *atom.state) if isinstance(atom, Call) else items_of(cast("object", atom))
            found = self._known.setdefault((Call, name, *map(self.of, parts)), len(self._known))
            self._seen[id(cast("object", atom))] = found
        return found
