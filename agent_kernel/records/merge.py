"""Three-way merges of records, field by field.

A record that one side changed is taken from that side. Of one that both changed, each field is taken so, and keys of fields that
are dicts likewise; what both changed differently is a conflict, and a person chooses. Some records are taken from one side as a
whole: a list, with its parts, because items of two sides have no order, and what is encrypted, because nobody can look into it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast

import msgspec
from pydantic_core import from_json, to_json

from agent_kernel.errors import MergeChoiceError, MergeConflictError, RecordError
from agent_kernel.records.schema import known_schemas
from agent_kernel.records.trees import (
    LIST,
    Row,
    changed_units,
    decode_row,
    encode_entry,
    is_counter,
    key_of,
    label_of,
    name_of,
    read_entry,
    tree_of,
    unit_of,
)
from agent_kernel.text import MASK
from agent_kernel.values import previews
from agent_kernel.values.previews.redaction import is_secret_under, names_a_secret

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId, Repository, Tree, Writer

_Clash: TypeAlias = "tuple[tuple[str, ...], object, object]"  # the way to a value, and what either side has

_MOST_CLASHES: Final = 8  # fields of one record that an error names
_MOST_TEXT: Final = 60
_MOST_READ: Final = 2_000  # characters of a value that are looked through for keys and tokens
_ABSENT: Final = object()


@dataclass
class RecordMerge:
    """What a merge makes of the records.

    Attributes:
        root: the tree of the merged records; None: no commit has records.
        conflicts: by the name of a record that both sides changed (`Note:a`), rows as a MergeConflictError has them.
        names: of all records that both sides changed differently, also where a choice settled it.
        is_changed: whether records become others than ours.
    """

    root: ObjectId | None
    conflicts: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict[str, "list[tuple[str, str, str]]"])
    names: set[str] = field(default_factory=set[str])
    is_changed: bool = False

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """All rows, in order of the names."""
        return tuple(row for _, rows in sorted(self.conflicts.items()) for row in rows)

    def require_no_conflict(self) -> None:
        """Raise MergeConflictError for what has to be chosen."""
        if self.conflicts:
            raise MergeConflictError(self.rows)


class _Sides(NamedTuple):
    base: Row | None
    ours: Row | None
    theirs: Row | None


def merge_records(
    repo: Repository,
    writer: Writer,
    base: ObjectId | None,
    ours: ObjectId | None,
    theirs: ObjectId,
    *,
    choose_ours: Collection[str] = (),
    choose_theirs: Collection[str] = (),
) -> RecordMerge:
    """The records of two commits together, given the one they come from.

    Args:
        choose_ours: names of records; what both sides changed of them stays as it is here.
        choose_theirs: names of records, of which it is taken from the other side.

    Raises:
        MergeChoiceError: one record is in both.
    """
    trees = tuple(tree_of(repo, commit) for commit in (base, ours, theirs))
    made = _Merge(repo, trees, frozenset(choose_ours), frozenset(choose_theirs))
    edits = made.edits(writer)
    before = None if ours is None else repo.commit_at(ours)
    root = None if before is None else before.records
    if edits or (before is not None and before.recent):
        root = trees[1].edit_rows(writer, edits).id
    return RecordMerge(root, made.conflicts, made.names, bool(edits))


class _Merge:
    def __init__(
        self, repo: Repository, trees: tuple[Tree, ...], choose_ours: frozenset[str], choose_theirs: frozenset[str]
    ) -> None:
        self._repo = repo
        self._base, self._ours, self._theirs = trees
        self._choose_ours, self._choose_theirs = choose_ours, choose_theirs
        self.conflicts: dict[str, list[tuple[str, str, str]]] = {}
        self.names: set[str] = set()

    def edits(self, writer: Writer) -> dict[str, bytes | None]:
        """The entries to change in our tree."""
        our_rows = {key: row for key, _, row in self._base.diff_rows(self._ours)}
        their_rows = {key: row for key, _, row in self._base.diff_rows(self._theirs)}
        units: dict[str, list[str]] = {}
        for key in sorted(our_rows.keys() | their_rows.keys()):
            units.setdefault(unit_of(key), []).append(key)
        edits: dict[str, bytes | None] = {}
        for unit, keys in units.items():
            if not any(key in our_rows for key in keys):
                edits.update((key, their_rows[key]) for key in keys)
            elif any(key in their_rows for key in keys):
                edits.update(self._joined(writer, unit, keys))
        return {key: row for key, row in edits.items() if row != self._ours.row(key)}

    def _joined(self, writer: Writer, unit: str, keys: list[str]) -> dict[str, bytes | None]:
        """What both sides changed."""
        sides = _Sides(*(self._read(tree, unit) for tree in (self._base, self._ours, self._theirs)))
        if is_counter(unit):
            largest = max((row for row in sides if row is not None), key=lambda row: row.version)
            return {unit: encode_entry(writer, largest)}
        if _document(sides.ours) == _document(sides.theirs):
            return {}
        if _is_unchanged(sides.base, sides.ours):  # it was stored again as it was
            return {key: self._theirs.row(key) for key in keys}
        if _is_unchanged(sides.base, sides.theirs):
            return {}
        choice = self._choice(name_of(unit))
        is_whole = any(row is not None and _is_whole(unit, row) for row in sides)
        if is_whole or any(side is None for side in sides[1:]) or _of_one_schema(unit, sides) is None:
            self.names.add(name_of(unit))
            if not choice:
                name = name_of(unit)
                self.conflicts[name] = [(name, _brief(unit, sides.ours), _brief(unit, sides.theirs))]
            return {key: self._theirs.row(key) for key in keys} if choice == "theirs" else {}
        sides = _of_one_schema(unit, sides) or sides
        row = self._merged(unit, sides, choice)
        return {} if row is sides.ours else {unit: encode_entry(writer, row)}

    def _choice(self, name: str) -> str:
        if name in self._choose_ours and name in self._choose_theirs:
            raise MergeChoiceError((name,), (name,), (name,))
        return "ours" if name in self._choose_ours else "theirs" if name in self._choose_theirs else ""

    def _read(self, tree: Tree, key: str) -> Row | None:
        return _read_row(self._repo, tree, key)

    def _merged(self, unit: str, sides: _Sides, choice: str) -> Row:
        """The row with the fields of both; ours where that is a conflict."""
        _, ours, theirs = sides
        assert ours is not None
        assert theirs is not None
        clashes: list[_Clash] = []
        found = _merge_fields(*(_fields(row) for row in sides), prefer=choice, way=(), clashes=clashes)
        name = name_of(unit)
        if clashes:
            self.names.add(name)
            if not choice:
                self.conflicts[name] = _rows_of(name, clashes)
                return ours
        if _json(found) == _json(_fields(ours)) and theirs.expires_ns in (ours.expires_ns, _expiry(sides.base)):
            return ours  # all that they changed is here
        later, earlier = (ours, theirs) if ours.time_ns >= theirs.time_ns else (theirs, ours)
        made = msgspec.structs.replace(
            later,
            version=max(ours.version, theirs.version) + 1,
            time_ns=max(time.time_ns(), later.time_ns + 1),
            expires_ns=_pick(sides.base, earlier, later),
            document=_json(found),
            is_packed=False,
        )
        if _is_valid(unit, made):
            return made
        self.names.add(name)  # fields that hold each alone, and not together
        if not choice:
            self.conflicts[name] = [(name, _brief(unit, ours), _brief(unit, theirs))]
        return theirs if choice == "theirs" else ours


def _of_one_schema(unit: str, sides: _Sides) -> _Sides | None:
    """The same with the fields of one schema: what one says of a field means something else in another. None: no model here knows all."""
    versions = {row.schema for row in sides if row is not None}
    if len(versions) == 1:
        return sides
    collection, _, id = unit.partition("\0")
    for schema in known_schemas(collection):
        if schema.version < max(versions):
            continue
        try:
            return _Sides(*(None if row is None else schema.renew(row, id) for row in sides))
        except RecordError:
            continue
    return None


def _is_whole(unit: str, row: Row) -> bool:
    return row.is_sealed or unit.startswith(f"{LIST}\0")


def _document(row: Row | None) -> bytes | None:
    return None if row is None else row.text()


def _is_unchanged(base: Row | None, row: Row | None) -> bool:
    if base is None or row is None:
        return False
    return (base.text(), base.expires_ns, base.schema) == (row.text(), row.expires_ns, row.schema)


def _fields(row: Row | None) -> dict[str, object]:
    return {} if row is None else cast("dict[str, object]", from_json(row.text()))


def _merge_fields(
    base: Mapping[str, object],
    ours: Mapping[str, object],
    theirs: Mapping[str, object],
    *,
    prefer: str,
    way: tuple[str, ...],
    clashes: list[_Clash],
) -> dict[str, object]:
    """The fields of both in our order. What both changed differently comes from the preferred side, and is told in `clashes`."""
    merged = dict(ours)
    for key in [*ours, *(key for key in (*base, *theirs) if key not in ours)]:
        was, mine, new = (side.get(key, _ABSENT) for side in (base, ours, theirs))
        if _is_same(new, was) or _is_same(new, mine):
            continue
        taken = new
        if not _is_same(mine, was):
            nothing: dict[str, object] = {}
            before, our_fields, their_fields = (
                nothing if was is _ABSENT else _dict_of(was),
                _dict_of(mine),
                _dict_of(new),
            )
            if before is not None and our_fields is not None and their_fields is not None:
                taken = _merge_fields(before, our_fields, their_fields, prefer=prefer, way=(*way, key), clashes=clashes)
            else:
                clashes.append(((*way, key), mine, new))
                taken = new if prefer == "theirs" else mine
        if taken is _ABSENT:
            merged.pop(key, None)
        else:
            merged[key] = taken
    return merged


def _is_same(one: object, other: object) -> bool:
    # True == 1 in Python, and a field that became the other has changed.
    return one is other or (_ABSENT not in (one, other) and _json(one) == _json(other))


def _json(value: object) -> bytes:
    return to_json(value, inf_nan_mode="constants")


def _dict_of(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _expiry(row: Row | None) -> int:
    return 0 if row is None else row.expires_ns


def _pick(base: Row | None, earlier: Row, later: Row) -> int:
    """When the record is gone: as the side that changed it says; of two that did, the later one."""
    was = _expiry(base)
    return earlier.expires_ns if later.expires_ns == was else later.expires_ns


def _is_valid(unit: str, row: Row) -> bool:
    collection, _, id = unit.partition("\0")
    for schema in known_schemas(collection):
        if row.schema > schema.version:
            continue  # the model of an older program
        try:
            schema.validate(schema.load(row, id))
        except RecordError:
            return False
    return True


def _rows_of(name: str, clashes: list[_Clash]) -> list[tuple[str, str, str]]:
    unit = key_of(name)
    rows: list[tuple[str, str, str]] = []
    for way, mine, new in clashes:
        label = _label(unit, way)
        place = "".join(f"[{key!r}]" for key in way)
        rows.append((f"{name}{place}", _text(mine, name=label), _text(new, name=label)))
    if len(rows) > _MOST_CLASHES:
        rows = [*rows[:_MOST_CLASHES], (f"{name}[…]", f"{len(rows) - _MOST_CLASHES} more", "…")]
    return rows


def _brief(unit: str, row: Row | None) -> str:
    if row is None:
        return "removed"
    if row.is_sealed:
        return "encrypted"
    fields = _fields(row)
    if unit.startswith(f"{LIST}\0"):
        many = cast("int", fields.get("start", 0)) + len(cast("list[object]", fields.get("items", [])))
        return f"{many:,} item{'' if many == 1 else 's'}"
    return ", ".join(_briefs(fields, unit))


def _briefs(fields: Mapping[str, object], unit: str) -> Iterator[str]:
    id = unit.partition("\0")[2]
    facts = [(name, value) for name, value in fields.items() if value not in (None, "", [], {}, id)]
    yield from (f"{name} {_text(value, 24, label_of(unit, name))}" for name, value in facts[:4])
    if len(facts) > 4:
        yield f"{len(facts) - 4} more"


def _text(value: object, most: int = _MOST_TEXT, name: str = "") -> str:
    if value is _ABSENT:
        return "removed"
    if value and is_secret_under(name, value):
        return MASK
    text = value if isinstance(value, str) else _json(value).decode()
    text = previews.mask_text(text[:_MOST_READ])  # before it is cut: the beginning of a key is no key to see
    text = "".join(sign if sign.isprintable() else " " for sign in text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


# -- what differs between two commits, in words


def changes_of_records(
    repo: Repository, old: ObjectId | None, new: ObjectId | None, *, only: Collection[str] = (), most: int | None = None
) -> list[tuple[str, str, str]]:
    """The records that differ between two commits: for each `~`, `+` or `-`, its name, and its fields that differ.

    Values are shortened, and what looks like a secret is masked.

    Args:
        only: names of records; by default all.
        most: so many at most, the first. Only these are read.
    """
    keys = {key_of(name) for name in only}
    found = [(unit, how) for unit, how in changed_units(repo, old, new) if not keys or unit in keys]
    before, after = tree_of(repo, old), tree_of(repo, new)
    return [
        (how, name_of(unit), _change_text(unit, _read_row(repo, before, unit), _read_row(repo, after, unit)))
        for unit, how in found[:most]
    ]


def _change_text(unit: str, old: Row | None, new: Row | None) -> str:
    if old is None or new is None:
        return _brief(unit, old or new)
    if _is_whole(unit, old) or _is_whole(unit, new):
        return " → ".join(dict.fromkeys((_brief(unit, old), _brief(unit, new))))
    found = list(_find_differences(_fields(old), _fields(new), ()))
    texts = [_field_text(unit, *one) for one in found[:_MOST_CLASHES]]
    texts += [f"{len(found) - _MOST_CLASHES} more"] if len(found) > _MOST_CLASHES else []
    return ", ".join(texts) or (
        "stored again as it was" if old.expires_ns == new.expires_ns else "another time to live"
    )


def _find_differences(old: Mapping[str, object], new: Mapping[str, object], way: tuple[str, ...]) -> Iterator[_Clash]:
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if _is_same(was, now):
            continue
        inner = _dict_of(was), _dict_of(now)
        if inner[0] is not None and inner[1] is not None:
            yield from _find_differences(inner[0], inner[1], (*way, key))
        else:
            yield (*way, key), was, now


def _label(unit: str, way: tuple[str, ...]) -> str:
    """The name by which what lies there may be a secret: that of a state's key also for all that is in its value."""
    label = label_of(unit, way[0])
    return label if names_a_secret(label) else way[-1]


def _field_text(unit: str, way: tuple[str, ...], old: object, new: object) -> str:
    name = ".".join(_text(key) for key in way)
    if new is _ABSENT:
        return f"without {name}"
    sides = [side for side in (old, new) if side is not _ABSENT]
    return f"{name} {' → '.join(_text(side, name=_label(unit, way)) or 'empty' for side in sides)}"


def read_row(repo: Repository, commit: ObjectId | None, name: str) -> Row | None:
    """The record, or the list, that a person names so, as a commit has it."""
    return _read_row(repo, tree_of(repo, commit), key_of(name))


def _read_row(repo: Repository, tree: Tree, unit: str) -> Row | None:
    raw = tree.row(unit)
    return None if raw is None else decode_row(read_entry(repo, raw))


def field_texts(name: str, row: Row) -> list[tuple[str, str]]:
    """The fields of a record and what they hold, shortened and masked. Of what is encrypted, and of a list, only that."""
    unit = key_of(name)
    if _is_whole(unit, row):
        return [("", _brief(unit, row))]
    return [(_text(key), _text(value, 400, label_of(unit, key)) or "empty") for key, value in _fields(row).items()]
