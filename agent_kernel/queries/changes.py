"""`commit`, `compare`, `environment` and `code`: what one commit changed, against its first parent or another one.

Of each variable old and new in a line, and dicts and objects side by side; of the cell its code; of what it ran on the
packages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import msgspec

from agent_kernel.commands import describe
from agent_kernel.commands.contents import ARRAY, Stored, integers, is_same, items_of, read_stored
from agent_kernel.commands.describe import Differing, most_interesting_first
from agent_kernel.commands.history import Record, reachable_commits
from agent_kernel.commands.show import (
    details_of,
    environment_changes,
    environment_facts,
    environment_of,
    find_differences,
)
from agent_kernel.errors import StoreError
from agent_kernel.queries.listing import QueryContext, side_of
from agent_kernel.queries.memory import Numbers, elements_of, is_hidden
from agent_kernel.queries.reader import At, Between
from agent_kernel.queries.text_diff import Budget, DiffLine, count_of, diff_lines, words_of
from agent_kernel.queries.wording import (
    Author,
    Ref,
    Side,
    Sign,
    commit_text,
    shorten_line,
    sign_of,
    step_called,
    subject_of,
    text_of,
)
from agent_kernel.repository import Commit, Entry, Kind, ObjectId, hex_of, read_outputs, short
from agent_kernel.repository.commits import decode_commit
from agent_kernel.session import history
from agent_kernel.session.history import mask_commit, prompt, size_of
from agent_kernel.text import MORE, clean_lines, count_noun, shape_text
from agent_kernel.values import previews
from agent_kernel.values.previews import Preview
from agent_kernel.values.streams import Call

if TYPE_CHECKING:
    from agent_kernel.session import Repository


# -- what two versions of a variable look like side by side; dicts by their keys, objects by their attributes

Mark: TypeAlias = "Sign | str"  # "" where nothing changed


class Column(msgspec.Struct, frozen=True):
    """A column of a table: its name, its dtype, and what became of it."""

    name: str
    of: str
    how: Mark


class Cell(msgspec.Struct, frozen=True):
    """One value on both sides; None: it is not there, or cannot be read."""

    old: str | None
    new: str | None
    how: Mark


class TableRow(msgspec.Struct, frozen=True):
    """A row with its label."""

    label: str
    how: Mark
    cells: tuple[Cell, ...]


class TableDiff(msgspec.Struct, frozen=True, tag="table", tag_field="kind"):
    """A table."""

    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]


class ArrayRow(msgspec.Struct, frozen=True):
    """One version of an array: how its values are spread, and what they come to."""

    label: str
    spread: tuple[float, ...]
    stats: tuple[tuple[str, str, bool], ...]


class ArrayDiff(msgspec.Struct, frozen=True, tag="array", tag_field="kind"):
    """An array of numbers."""

    rows: tuple[ArrayRow, ...]


class TextDiff(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """A text, line by line."""

    lines: tuple[DiffLine, ...]


class Pair(msgspec.Struct, frozen=True):
    """A key, or an attribute, on both sides; None: it is not there."""

    label: str
    old: str | None
    new: str | None
    changed: bool


class PairsDiff(msgspec.Struct, frozen=True, tag="pairs", tag_field="kind"):
    """A dict by its keys, or an object by its attributes."""

    columns: tuple[str, str]
    rows: tuple[Pair, ...]


class PicturesDiff(msgspec.Struct, frozen=True, tag="pictures", tag_field="kind"):
    """What cells showed of a figure, as data: URIs."""

    before: str | None
    after: str | None


ValueDiff: TypeAlias = TableDiff | ArrayDiff | TextDiff | PairsDiff | PicturesDiff


# -- dicts by their keys and objects by their attributes, side by side

_MOST_ITEMS = 100
_MOST_LOOKED_AT = 1_000  # of which those that changed are told first
_FEW_ITEMS = 6  # numbers of a small array
_LONGEST = 80


def key_rows(before: Preview | None, after: Preview | None, old: Stored | None, new: Stored | None) -> tuple[Pair, ...]:
    """The first keys of a dict. Two values that read the same in short are compared as they are stored."""
    was, now = _column_types(before), _column_types(after)
    items = _read_items(old, was), _read_items(new, now)
    rows: list[Pair] = []
    for key in islice(dict.fromkeys([*now, *was]), _MOST_ITEMS):
        differ = was.get(key) != now.get(key)
        if not differ and old is not None and new is not None and key in items[0] and key in items[1]:
            differ = not is_same(old, new, items[0][key], items[1][key])
        rows.append(
            Pair(shorten_line(key), was.get(key), now.get(key), differ and before is not None and after is not None)
        )
    return tuple(rows)


def _column_types(summary: Preview | None) -> dict[str, str]:
    if summary is None:
        return {}
    return {column.name: shorten_line(column.of, _LONGEST) for column in summary.columns}


def _read_items(stored: Stored | None, noted: Mapping[str, str]) -> dict[str, object]:
    """The stored value of each key: a dict is described as its keys and values by turns, in order."""
    found = items_of(stored.value) if stored is not None else ()
    return dict(zip(noted, found[1::2], strict=False)) if len(found) % 2 == 0 else {}


def attribute_rows(old: Stored | None, new: Stored | None) -> tuple[Pair, ...]:
    """The attributes of an object that is stored as its class and its attributes, those that changed first; none where it is not."""
    was, now = _attributes(old), _attributes(new)
    rows: list[Pair] = []
    for name in islice(dict.fromkeys([*now, *was]), _MOST_LOOKED_AT):
        texts = [
            None if stored is None or name not in side else _describe_attribute(stored, name, side[name])
            for stored, side in ((old, was), (new, now))
        ]
        both = old is not None and new is not None
        differ = both and (
            name not in was
            or name not in now
            or (old is not None and new is not None and not is_same(old, new, was[name], now[name]))
        )
        rows.append(Pair(shorten_line(name), texts[0], texts[1], differ))
    return tuple(sorted(rows, key=lambda row: not row.changed)[:_MOST_ITEMS])


def _holds_attributes(stored: Stored | None) -> bool:
    """Whether there are attributes to show."""
    return bool(_attributes(stored))


def _attributes(stored: Stored | None) -> dict[str, object]:
    value = stored.value if stored is not None else None
    state = items_of(value.state[0]) if isinstance(value, Call) and len(value.state) == 1 else ()
    names = state[::2]
    if len(state) % 2 or not all(isinstance(name, str) for name in names):
        return {}
    return {str(name): one for name, one in zip(names, state[1::2], strict=True) if not str(name).startswith("__")}


def _describe_attribute(stored: Stored, name: str, value: object) -> str:
    """Describe an attribute in short."""
    if previews.names_a_secret(name):
        return previews.MASK
    if value is None or isinstance(value, (bool, int, float)):
        return "None" if value is None else text_of(value)
    if isinstance(value, str):
        return shorten_line(f"'{text_of(value)}'", _LONGEST)
    if isinstance(value, Call):
        return shorten_line(_of_call(stored, value), _LONGEST)
    return f"({MORE})" if isinstance(value, tuple) else MORE


def _of_call(stored: Stored, call: Call) -> str:
    if call.name == ARRAY:
        shape = integers(call.args[2])
        numbers = elements_of(stored, call) if len(shape) == 1 else None
        if isinstance(numbers, Numbers) and 0 < numbers.count <= _FEW_ITEMS:
            return f"[{', '.join(text_of(numbers.at(place)) for place in range(numbers.count))}]"
        return f"array {shape_text(shape)}"
    if call.name.endswith(".scalar"):
        return text_of(_scalar(call))
    if call.name.startswith(_OURS):  # how it is stored says nothing to a reader
        return _of_array(call) or MORE
    count = len(items_of(call.args[0])) if call.args else 0
    kind = call.name.rpartition(".")[2].lstrip("_")
    return f"{kind}, {count_noun(count, 'item')}" if kind in ("list", "set", "dict") else kind


_OURS = "agent_kernel.values.restore."
# The arrays that are stored in other ways than as bytes, and at which argument their shape stands.
_SHAPED = {"object_array_bare": 0, "object_column": 2, "object_view": 2, "view": 2}


def _of_array(call: Call) -> str:
    """An array of objects in short: its texts and numbers where they are few. "" of anything else."""
    name = call.name.rpartition(".")[2]
    at = _SHAPED.get(name)
    if at is None or len(call.args) <= at or not isinstance(call.args[at], tuple):
        return ""
    shape = integers(call.args[at])
    state = call.state[0] if name == "object_array_bare" and call.state else None
    items = items_of(cast("tuple[object, ...]", state)[0]) if isinstance(state, tuple) and state else ()
    if len(shape) == 1 and 0 < len(items) <= _FEW_ITEMS and all(isinstance(item, str | int | float) for item in items):
        texts = (f"'{text_of(item)}'" if isinstance(item, str) else text_of(item) for item in items)
        return f"[{', '.join(texts)}]"
    return f"array {shape_text(shape)}"


def _scalar(call: Call) -> object:
    """A number of numpy's own types: its bytes stand in the stream."""
    import struct

    dtype = call.args[0] if call.args else None
    name = str(dtype.args[0]) if isinstance(dtype, Call) and dtype.args else ""
    content = call.args[1] if len(call.args) > 1 else None
    code = {"f8": "<d", "f4": "<f", "i8": "<q", "i4": "<i", "b1": "<?"}.get(name)
    if code is None or not isinstance(content, bytes) or struct.calcsize(code) != len(content):
        return ...
    found: tuple[object, ...] = struct.unpack(code, content)
    return found[0]


_MOST_READ = 8_000_000  # bytes of both versions that are compared for a line; more only when the variable is opened
_MOST_INSPECTED = 200_000  # bytes of an object whose attributes are looked for
_OPENING = frozenset({"array", "frame", "mapping", "series", "tensor", "text"})
_LINE = 160
_FEW = 3  # keys of a dict
_MOST = 500  # variables


# -- what a commit did to each variable, in a line each


class Change(msgspec.Struct, frozen=True):
    """One variable. `old` is empty where both sides read the same, and `new` then says what is different."""

    name: str
    how: Sign
    type: str
    old: str
    new: str
    old_size: int | None
    new_size: int | None
    opens: bool


def _changes_of(repo: Repository, found: Sequence[Differing]) -> tuple[tuple[Change, ...], int]:
    """One line for each variable that differs, the most interesting first, then what was removed; and how many there are beyond.

    Of very many the largest are told.
    """
    largest = most_interesting_first(repo, found, _MOST)
    return tuple(_change(repo, one) for one in largest), len(found) - len(largest)


def _change(repo: Repository, one: Differing) -> Change:
    before, after = summary_of(repo, one.old), summary_of(repo, one.new)
    missing = _why_not_saved(repo, one.name, one.old), _why_not_saved(repo, one.name, one.new)
    old, new = _content(one.old, before, missing[0]), _content(one.new, after, missing[1])
    is_placeholder = [each is not None and each.is_whole for each in missing]
    if one.how == "~" and all(is_placeholder):
        old = "" if old == new else old  # how the placeholders differ says nothing of the values
    elif one.how == "~" and old == new:
        old, new = "", ", ".join(part for part in (new, _what_differs(repo, one)) if part)
    elif one.how == "~" and MORE in old + new and (elements := _elements_that_differ(repo, one, before, after)):
        old, new = "", elements  # cut, both would read the same
    known = after or before
    return Change(
        name=shorten_line(one.name),
        how="=" if one.how == "=" else sign_of(one.how),
        type=previews.noun(known) if known is not None else "",
        old=shorten_line(old, _LINE),
        new=shorten_line(new, _LINE),
        old_size=None if one.old is None or is_placeholder[0] else size_of(repo, one.old),
        new_size=None if one.new is None or is_placeholder[1] else size_of(repo, one.new),
        opens=one.how != "=" and not any(is_placeholder) and known is not None and _opens(repo, one, before, after),
    )


def summary_of(repo: Repository, entry: Entry | None) -> previews.Preview | None:
    """What was noted about a value; None where nothing was, or where that is damaged: the rest can still be shown."""
    try:
        return None if entry is None else history.summary_of(repo, entry)
    except StoreError:
        return None


def _why_not_saved(repo: Repository, name: str, entry: Entry | None) -> describe.NotSaved | None:
    try:
        return describe.not_saved(repo, name, entry)
    except StoreError:
        return None


def _content(entry: Entry | None, summary: previews.Preview | None, missing: describe.NotSaved | None) -> str:
    if entry is None:
        return ""
    if missing is not None and missing.is_whole:
        return missing.sentence
    text = "not described" if summary is None else previews.content(summary)
    return text if missing is None else f"{text} ({missing.sentence})".strip()


def _what_differs(repo: Repository, one: Differing) -> str:
    if one.old is None or one.new is None:
        return ""
    if not one.old.is_same_value(one.new) and size_of(repo, one.old) + size_of(repo, one.new) > _MOST_READ:
        return "contents differ"
    try:
        details = details_of(repo, one.old, one.new)
    except StoreError:  # damaged: what is known is that it is stored otherwise
        return "contents differ"
    if len(details) > 1 and all(line.startswith("~ ") and "." in line for line in details):
        return _first_of(details)  # what changed in the widgets that a widget holds
    return details[0].removeprefix("~ ") if len(details) == 1 and "may differ" not in details[0] else "contents differ"


def _first_of(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - _FEW} more" if len(lines) > _FEW else ""
    return ", ".join(line.removeprefix("~ ") for line in lines[:_FEW]) + more


def _elements_that_differ(
    repo: Repository, one: Differing, before: previews.Preview | None, after: previews.Preview | None
) -> str:
    """Of dicts the first keys that differ, as `'alpha': 0.95 → 0.5`; nothing where that is not known."""
    if one.old is None or one.new is None or previews.names_a_secret(one.name):
        return ""
    if any(side is None or side.kind != "mapping" or is_hidden(side) for side in (before, after)):
        return ""
    if size_of(repo, one.old) + size_of(repo, one.new) > _MOST_READ:
        return ""
    try:
        found = [line for line in details_of(repo, one.old, one.new) if line[:2] in ("~ ", "+ ", "- ")]
    except StoreError:  # damaged: what was noted of both is shown
        return ""
    return _first_of(found)


def _opens(repo: Repository, one: Differing, before: previews.Preview | None, after: previews.Preview | None) -> bool:
    """Whether there is more to see of it than the line says."""
    kinds = {side.kind for side in (before, after) if side is not None}
    if any(previews.is_picture(side) for side in (before, after) if side is not None):
        return True
    if previews.names_a_secret(one.name) or any(is_hidden(side) for side in (before, after) if side is not None):
        return False
    if kinds == {"object"} and any(side.columns for side in (before, after) if side is not None):
        return True
    if kinds == {"object"} and one.how == "~" and one.new is not None:
        return size_of(repo, one.new) <= _MOST_INSPECTED and _has_attributes(repo, one.new)
    if not kinds & _OPENING:
        return False
    if kinds == {"text"}:
        return one.how == "~"
    return True


def _has_attributes(repo: Repository, entry: Entry) -> bool:
    try:
        return _holds_attributes(read_stored(repo, entry))
    except (StoreError, RecursionError):
        return False


# -- `code`: what a cell's code says that its last run did not

_MOST_EARLIER = 60  # earlier cells, where a front end gives cells no ids
_ALIKE = 0.6
_BEGINNING = 2_000  # characters by which they are compared
_LONGEST_CELL = 200_000  # characters of a cell


class CodeDiff(msgspec.Struct, frozen=True):
    """A cell's code against another run."""

    about: str
    lines: tuple[DiffLine, ...]


def code(context: QueryContext, args: At) -> CodeDiff:
    """The code against its last run, or against that of another commit. A cell that never ran before is all new."""
    id, commit = context.resolve(args.id)
    if args.against:
        before = context.resolve(args.against)[1]
        return _diff(f"{_cell(commit)} against {commit_text(before)}", _source_of(before), _source_of(commit), Budget())
    if commit.cell is None:
        return CodeDiff("No cell made this commit", ())
    budget = Budget()
    last = _last_run(context, id, commit, budget)
    if last is None:
        return _diff(f"{_cell(commit)}, its first run", "", _source_of(commit), budget)
    return _diff(
        f"{_cell(commit)} against its last run, {commit_text(last)}", _source_of(last), _source_of(commit), budget
    )


def _diff(about: str, old: str, new: str, budget: Budget) -> CodeDiff:
    return CodeDiff(f"{about}: the same code" if old == new else about, diff_lines(old, new, budget))


def _source_of(commit: Commit) -> str:
    """The code of the commit's cell as it may be shown."""
    cell = mask_commit(commit).cell
    return cell.source[:_LONGEST_CELL] if cell is not None else ""


def _last_run(context: QueryContext, id: ObjectId, commit: Commit, budget: Budget) -> Commit | None:
    """The run of the same cell before this one: by the cell's id, else by its number or its text; None if it never ran before."""
    if commit.cell is None:
        return None
    earlier = _line_before(context, id)
    if not commit.cell.id:
        return _most_alike(context, earlier, commit, budget)
    mark = hash(commit.cell.id)
    for record in earlier:
        if record.cell == mark:
            return context.repo.commit_at(record.id)
    return None


def _line_before(context: QueryContext, id: ObjectId) -> Iterator[Record]:
    """The commits before this one on its line."""
    view = context.history_now().view
    while id in view.order_of:
        parents = view.order[view.order_of[id]].parents
        if not parents:
            return
        id = parents[0]
        yield view.order[view.order_of[id]]


def _most_alike(context: QueryContext, earlier: Iterator[Record], commit: Commit, budget: Budget) -> Commit | None:
    """By their words. Where the budget ends before all were looked at, the best that was found by then."""
    words = _words(commit)
    best, share = None, _ALIKE
    cells = (found for record in earlier if (found := context.repo.commit_at(record.id)).cell is not None)
    for found in islice(cells, _MOST_EARLIER):
        others = _words(found)
        if others == words:
            return found
        if not budget.allows_a_look(others, words):
            break
        matcher = budget.words(others, words)
        if matcher.quick_ratio() <= share:
            continue
        alike = matcher.ratio()
        if alike > share:
            best, share = found, alike
        if found.cell is not None and commit.cell is not None and found.cell.number == commit.cell.number is not None:
            return found if alike > _ALIKE else best
    return best


def _words(commit: Commit) -> list[str]:
    return [word for word in words_of(_source_of(commit)[:_BEGINNING]) if not word.isspace()]


def _cell(commit: Commit) -> str:
    return f"Cell {commit_text(commit)}" if commit.cell is not None else commit_text(commit)


# -- `commit`: one commit against its first parent, or against another one


class Against(msgspec.Struct, frozen=True):
    """The other side of a comparison."""

    id: str
    label: str


class Unsaved(msgspec.Struct, frozen=True):
    """A variable that could not be saved, why, and what can be done about it."""

    name: str
    type: str
    reason: str
    remedy: str


class CodeCount(msgspec.Struct, frozen=True):
    """Lines that the cell's last run did not have, and lines that only it had."""

    added: int
    removed: int


class Details(msgspec.Struct, frozen=True):
    """Everything about a commit but its outputs, its code line by line, and the contents of variables."""

    id: str
    short: str
    prompt: str
    subject: str
    is_code: bool
    message: str
    source: str
    author: Author
    time_ms: int
    took_s: float | None
    status: str
    error: str
    labels: tuple[str, ...]
    parents: tuple[str, ...]
    refs: tuple[Ref, ...]
    against: Against | None
    changes: tuple[Change, ...]
    more_changes: int  # beyond those
    unsaved: tuple[Unsaved, ...]
    code: CodeCount | None
    outputs: int
    environment: Literal["same", "changed", "none"]
    cells: bool
    cwd: str
    called: str = ""  # a step of an agent in a sentence, for its cell has others


def commit(context: QueryContext, args: At) -> Details:
    """One commit."""
    id, found = context.resolve(args.id)
    before = before_of(context, found, args.against)
    changes, more = _changes_of(context.repo, find_differences(context.repo, None if before is None else before[0], id))
    subject, is_code = subject_of(found)
    masked = mask_commit(found)
    return Details(
        id=hex_of(id),
        short=short(id),
        prompt=prompt(found),
        subject=subject,
        is_code=is_code,
        message=clean_lines(masked.message)[:10_000],
        source=clean_lines(_source_of(found)),
        author=context.author(found),
        time_ms=found.time_ns // 1_000_000,
        took_s=found.cell.duration_s if found.cell is not None else None,
        status=shorten_line(found.status),
        error=shorten_line(masked.cell.error, 500) if masked.cell is not None else "",
        labels=tuple(shorten_line(label) for label in found.labels[:20]),
        parents=tuple(map(hex_of, found.parents[:20])),
        refs=context.history_now().refs.get(id, ()),
        against=None if before is None else Against(hex_of(before[0]), commit_text(before[1])),
        changes=changes,
        more_changes=more,
        unsaved=tuple(
            Unsaved(
                shorten_line(one.name),
                shorten_line(one.type),
                shorten_line(one.reason, 300),
                shorten_line(one.remedy, 300),
            )
            for one in masked.unsaved[:500]
        ),
        code=_code_count(context, id, found),
        outputs=_output_count(context, found),
        environment=_environment(found, None if before is None else before[1]),
        cells=(found.document or found.notebook) is not None,
        cwd=shorten_line(found.cwd, 500),
        called=step_called(found),
    )


def before_of(context: QueryContext, found: Commit, against: str | None) -> tuple[ObjectId, Commit] | None:
    """What a commit is compared with: another one, or its first parent, if it has one; "": nothing."""
    if against == "":
        return None
    if against is not None:
        return context.resolve(against)
    return (found.parents[0], context.repo.commit_at(found.parents[0])) if found.parents else None


def _code_count(context: QueryContext, id: ObjectId, found: Commit) -> CodeCount | None:
    if found.cell is None:
        return None
    budget = Budget()
    last = _last_run(context, id, found, budget)
    return CodeCount(*count_of("" if last is None else _source_of(last), _source_of(found), budget))


def _output_count(context: QueryContext, found: Commit) -> int:
    if found.cell is None or found.cell.outputs is None:
        return 0
    return len(read_outputs(context.repo.objects, found.cell.outputs).outputs)


def _environment(found: Commit, before: Commit | None) -> Literal["same", "changed", "none"]:
    if found.environment is None:
        return "none"
    return "same" if before is None or before.environment == found.environment else "changed"


# -- `environment`: what a commit ran on, and what differs from where another one ran

_MOST_PACKAGES = 2_000  # packages


class Version(msgspec.Struct, frozen=True):
    """A package, or the interpreter, that is not the same."""

    how: Sign
    name: str
    old: str
    new: str


class EnvironmentDiff(msgspec.Struct, frozen=True):
    """An environment against another one."""

    about: str
    facts: tuple[tuple[str, str], ...]
    packages: int
    installed: tuple[tuple[str, str], ...]  # each package and its version
    changed: tuple[Version, ...]


def environment(context: QueryContext, args: At) -> EnvironmentDiff:
    """The environment of a commit, against its first parent's or another commit's."""
    commit = context.resolve(args.id)[1]
    if args.against:
        return between(context, context.resolve(args.against)[1], commit)
    return between(context, context.repo.commit_at(commit.parents[0]) if commit.parents else None, commit)


def between(context: QueryContext, before: Commit | None, after: Commit) -> EnvironmentDiff:
    """What `after` ran on, and what of it is not as it was."""
    found = environment_of(context.repo, after)
    if found is None:
        return EnvironmentDiff(f"The environment of {commit_text(after)} was not recorded", (), 0, (), ())
    facts = tuple((name, shorten_line(value)) for name, value in environment_facts(found).items() if value)
    parted = (shorten_line(one).partition("==") for one in found.packages[:_MOST_PACKAGES])
    installed = tuple((name, version) for name, _, version in parted)
    old = environment_of(context.repo, before)
    if before is None or old is None:
        about = f"Environment of {commit_text(after)}" + (
            f"; that of {commit_text(before)} was not recorded" if before else ""
        )
        return EnvironmentDiff(about, facts, len(found.packages), installed, ())
    rows = environment_changes(old, found)
    about = f"Environment of {commit_text(after)}, {'against that of' if rows else 'the same as'} {commit_text(before)}"
    changed = tuple(
        Version(sign_of(how), shorten_line(name), shorten_line(was), shorten_line(now)) for how, name, was, now in rows
    )
    return EnvironmentDiff(about, facts, len(found.packages), installed, changed[:_MOST_PACKAGES])


# -- `compare`: two commits side by side. The first is the left side

_MOST_CELLS = 50  # of either side whose code is shown
_MOST_RUNS = 3_000  # of either side, the newest, in which they are looked for
_BATCH = 200
_MOST_NAMES = 1_000


class CellDiff(msgspec.Struct, frozen=True):
    """The code of a cell that one side ran, or both did."""

    prompt: str
    lines: tuple[DiffLine, ...]
    about: str


class Comparison(msgspec.Struct, frozen=True):
    """What differs. `base`: where both grew from; None: unrelated, or one is it."""

    a: Side
    b: Side
    base: Side | None
    changes: tuple[Change, ...]
    more_changes: int
    same: int
    same_names: tuple[str, ...]
    code: tuple[CellDiff, ...]
    environment: EnvironmentDiff | None


def compare(context: QueryContext, args: Between) -> Comparison:
    """Variables, code and environment of two commits."""
    (a, before), (b, after) = context.resolve(args.a), context.resolve(args.b)
    found = find_differences(context.repo, a, b)
    changes, more = _changes_of(context.repo, found)
    names = {one.name for one in found}
    same = [name for name in context.repo.tree(after.tree).names() if not name.startswith("\0") and name not in names]
    base = context.repo.merge_base(a, b)
    return Comparison(
        a=side_of(context, a, before),
        b=side_of(context, b, after),
        base=None if base is None or base in (a, b) else side_of(context, base, context.repo.commit_at(base)),
        changes=changes,
        more_changes=more,
        same=len(same),
        same_names=tuple(shorten_line(name) for name in same[:_MOST_NAMES]),
        code=_code(context, a, b),
        environment=None if before.environment == after.environment else between(context, before, after),
    )


def _code(context: QueryContext, a: ObjectId, b: ObjectId) -> tuple[CellDiff, ...]:
    """The last runs of the cells that only one side made, or that both made with another text; newest last."""
    left, right = _cells_since(context, a, b), _cells_since(context, b, a)
    found: list[CellDiff] = []
    budget = Budget()
    for key in [*left, *(key for key in right if key not in left)]:
        before, after = left.get(key), right.get(key)
        old, new = ("" if one is None else _source_of(one) for one in (before, after))
        cell = after or before
        if old == new or cell is None:
            continue
        about = (
            "" if before is not None and after is not None else f"only on the {'left' if after is None else 'right'}"
        )
        if before is not None and after is not None:
            about = f"{commit_text(before)} and {commit_text(after)}"
        found.append(CellDiff(commit_text(cell), diff_lines(old, new, budget), about))
    return tuple(found)


def _cells_since(context: QueryContext, tip: ObjectId, other: ObjectId) -> dict[str, Commit]:
    """The last run of each cell that this side made and the other does not have, in the order in which they ran."""
    view = context.history_now().view
    if tip not in view.order_of or other not in view.order_of:
        own = context.repo.history.missing_from(tip, [other])
    else:
        own = sorted(reachable_commits(view, [tip], reachable_commits(view, [other])), key=view.order_of.__getitem__)
    found: dict[str, Commit] = {}
    for start in range(0, min(len(own), _MOST_RUNS), _BATCH):
        for id, commit in _read(context, own[start : start + _BATCH]):
            if commit.cell is not None:
                found.setdefault(commit.cell.id or hex_of(id), commit)
        if len(found) >= _MOST_CELLS:
            break
    return dict(reversed(list(found.items())[:_MOST_CELLS]))


def _read(context: QueryContext, ids: Sequence[ObjectId]) -> Iterable[tuple[ObjectId, Commit]]:
    return zip(ids, context.repo.objects.load_many(Kind.COMMIT, ids, decode_commit), strict=True)
