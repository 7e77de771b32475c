"""`variable`, `outputs` and `cells`: a variable on both sides, and what cells showed, without loading anything."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import chain
from math import inf, isfinite, prod, sqrt
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent_kernel.commands import describe
from agent_kernel.commands.contents import ARRAY, Stored, columns_of, integers, read_stored, widget_changes
from agent_kernel.commands.show import MaskedOutputs, details_of, find_differences, outputs_of
from agent_kernel.errors import NameNotFoundError, StoreError, TooLargeError
from agent_kernel.queries.changes import (
    ArrayDiff,
    ArrayRow,
    Pair,
    PairsDiff,
    PicturesDiff,
    TableDiff,
    TextDiff,
    ValueDiff,
    attribute_rows,
    before_of,
    key_rows,
    summary_of,
)
from agent_kernel.queries.listing import QueryContext
from agent_kernel.queries.memory import (
    Elements,
    Frame,
    Numbers,
    elements_of,
    frame_of,
    is_hidden,
    is_named_a_secret,
    may_name_a_secret,
)
from agent_kernel.queries.reader import OfVariable, One
from agent_kernel.queries.tables import diff_previews, diff_series, diff_tables
from agent_kernel.queries.text_diff import diff_lines
from agent_kernel.queries.wording import Sign, commit_text, shorten_line, sign_of
from agent_kernel.repository import Commit, Entry, ObjectId, Output, Representation
from agent_kernel.session.provenance import read_notebook
from agent_kernel.values import previews
from agent_kernel.values.previews import Preview
from agent_kernel.values.streams import Buffer, Call

if TYPE_CHECKING:
    from agent_kernel.repository import Cell
    from agent_kernel.session.provenance import NotebookCell


# -- `outputs` and `cells`: what a cell showed, and the page that it stood on. Text is masked; pictures come as data, so many of them as fit into one answer
#
# HTML and SVG are handed on as the text that they are, masked too: whoever shows them does so in a frame without scripts.

Kind = Literal["text", "error", "image", "html", "svg", "json", "gap"]

_MOST_BYTES: Final = 2_000_000  # of one answer
_MOST_TEXT: Final = 500_000  # characters of one output
_MOST_OUTPUTS: Final = 500
PICTURE_BYTES: Final = 1_000_000
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
# In the order in which one of them stands for the others.
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(_PICTURES, "image"),
    "text/html": "html",
    "image/svg+xml": "svg",
    "application/json": "json",
    "text/markdown": "text",
    "text/latex": "text",
    "text/plain": "text",
}


class OutputView(msgspec.Struct, frozen=True):
    """One output. Without text and picture it was left out, for its size."""

    kind: Kind
    text: str
    uri: str
    size: int
    note: str


class _Room:
    """What is left of an answer."""

    def __init__(self) -> None:
        self.bytes = _MOST_BYTES

    def take(self, size: int) -> bool:
        fits = size <= self.bytes
        self.bytes -= size if fits else 0
        return fits


def outputs(context: QueryContext, args: One) -> tuple[OutputView, ...]:
    """All that the commit's cell showed, in order."""
    found = outputs_of(context.repo, context.resolve(args.id)[1])
    if found is None:
        return ()
    room = _Room()
    views = [_show_output(found, output, room) for output in found.outputs.outputs[:_MOST_OUTPUTS]]
    rest = len(found.outputs.outputs) - len(views)
    return (*views, *([OutputView("gap", "", "", 0, f"{rest:,} more outputs")] if rest else []))


def _show_output(found: MaskedOutputs, output: Output, room: _Room) -> OutputView:
    note = _note(output)
    if output.kind == "gap":
        return OutputView("gap", "", "", output.size, "left out when it was shown: too large")
    if output.kind == "stream":
        return _text("text", found.clean(output.text), room, note)
    if output.kind == "error":
        return _text("error", found.clean("\n".join(output.traceback) or f"{output.name}: {output.text}"), room, note)
    representation = _best(output)
    if representation is None:
        types = ", ".join(f"{shorten_line(one.mime)}" for one in output.representations)
        return OutputView(
            "gap",
            "",
            "",
            sum(one.size for one in output.representations),
            f"{types} cannot be shown here" if types else "",
        )
    kind = _KINDS[representation.mime]
    if not representation.is_kept:
        return OutputView(kind, "", "", representation.size, "left out when it was shown: too large")
    if kind != "image":
        return _text(kind, found.content(representation), room, note)
    uri = _uri(found, representation) if representation.size * 4 // 3 <= room.bytes else ""
    if not uri or not room.take(len(uri)):
        return OutputView("image", _words(found, output), "", representation.size, "too large to be shown here")
    return OutputView("image", _words(found, output), uri, representation.size, note)


def _text(kind: Kind, text: str, room: _Room, note: str) -> OutputView:
    size = len(text.encode("utf-8", "replace"))
    whole = len(text) <= _MOST_TEXT
    if kind in ("html", "svg") and not whole:  # half of it would be something else
        return OutputView(kind, "", "", size, "too large to be shown here")
    excerpt = text if whole else f"{text[:_MOST_TEXT]}\n…"
    if not room.take(len(excerpt)):
        return OutputView(kind, "", "", size, "too large to be shown here")
    return OutputView(kind, excerpt, "", size, note if whole else "the beginning of a longer text")


def _best(output: Output) -> Representation | None:
    """The representation that stands for the output: of those that were kept, if one was."""
    known = [representation for representation in output.representations if representation.mime in _KINDS]
    order = list(_KINDS)
    return min(
        known, key=lambda representation: (not representation.is_kept, order.index(representation.mime)), default=None
    )


def _words(found: MaskedOutputs, output: Output) -> str:
    """What the object says of itself in plain text, to stand for its picture."""
    plain = next(
        (representation for representation in output.representations if representation.mime == "text/plain"), None
    )
    return shorten_line(found.content(plain), 300) if plain is not None else ""


def _uri(found: MaskedOutputs, representation: Representation) -> str:
    content = found.read(representation)
    return "" if content is None else f"data:{representation.mime};base64,{b64encode(content).decode()}"


def _note(output: Output) -> str:
    if output.kind == "update_display_data":
        return "in place of what an earlier cell showed"
    if output.under is not None:
        return f"under [{output.under}]"
    if output.widget:
        return "in a widget"
    return "stderr" if output.kind == "stream" and output.name == "stderr" else ""


def picture_of(context: QueryContext, commit: Commit) -> str | None:
    """The last PNG that the commit's cell showed, if it is not large."""
    found = outputs_of(context.repo, commit)
    if found is None:
        return None
    representations = (
        representation for output in reversed(found.outputs.outputs) for representation in output.representations
    )
    pictures = (
        representation
        for representation in representations
        if representation.mime == "image/png" and representation.is_kept and representation.size <= PICTURE_BYTES
    )
    representation = next(pictures, None)
    return None if representation is None else _uri(found, representation)


# -- `cells`: the notebook's page that was stored with a commit

_MOST = 16 << 20  # characters of all cells


class SavedCell(msgspec.Struct, frozen=True):
    """One cell of a notebook's page."""

    id: str
    type: Literal["code", "markdown", "raw"]
    source: str


class NotebookDocument(msgspec.Struct, frozen=True):
    """A notebook as it was saved last before a commit. `at`: which cell it was that made the commit, if it is known."""

    name: str
    saved_ms: int
    at: int | None
    cells: tuple[SavedCell, ...]


def cells(context: QueryContext, args: One) -> NotebookDocument | None:
    """The page with its sources as they were typed, for it is there to be put back; None: none was stored.

    Raises:
        TooLargeError: it is larger than one answer may be.
    """
    commit = context.resolve(args.id)[1]
    document = read_notebook(context.repo.objects, commit)
    if document is None:
        return None
    size = sum(len(cell.source) for cell in document.cells)
    if size > _MOST:
        raise TooLargeError(f"the page of {shorten_line(document.name)}", size, _MOST)
    return NotebookDocument(
        shorten_line(document.name),
        document.saved_ns // 1_000_000,
        _position_of(commit.cell, document.cells),
        tuple(SavedCell(shorten_line(cell.id), _type_of(cell.type), cell.source) for cell in document.cells),
    )


def _position_of(ran: Cell | None, cells: Sequence[NotebookCell]) -> int | None:
    if ran is None:
        return None
    by_id = (at for at, cell in enumerate(cells) if ran.id and cell.id == ran.id)
    # A kernel is not told the ids of notebooks of old formats, nor by every front end.
    by_code = (at for at, cell in enumerate(cells) if cell.type == "code" and cell.source == ran.source)
    return next(chain(by_id, by_code), None)


def _type_of(found: str) -> Literal["code", "markdown", "raw"]:
    return "markdown" if found == "markdown" else "raw" if found == "raw" else "code"


# -- arrays side by side: smallest, mean, largest, standard deviation, and how the values are spread
#
# Of a long array stretches from its beginning to its end are read, and it is said so.

MOST_READ = 262_144  # numbers of one version
_BARS = 16
_TORCH = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint8": "|u1",
    "bool": "|b1",
}


class _Measured(msgspec.Struct):
    """What the numbers of one version come to."""

    low: float
    high: float
    mean: float
    sd: float
    missing: int
    values: list[float]
    is_boolean: bool = False


def numbers_in(stored: Stored) -> Numbers | None:
    """The numbers of an array, a tensor, or a series of numbers; None for anything else."""
    value = stored.value
    if not isinstance(value, Call):
        return None
    if value.name == ARRAY:
        found = elements_of(stored, Call(ARRAY, (*value.args[:2], (prod(integers(value.args[2])),), "C")))
    elif value.name == "agent_kernel.values.restore.tensors.tensor":
        found = _tensor(stored, value)
    else:
        columns = columns_of(stored) if value.name.endswith("Series") else None
        part = columns.get(0) if columns is not None and len(columns) == 1 else None
        found = None if part is None else elements_of(stored, part[0].args[0])
    return found if isinstance(found, Numbers) and found.is_number else None


def _tensor(stored: Stored, tensor: Call) -> Elements | None:
    """A tensor that takes up all of its memory, in order."""
    if len(tensor.args) < 5 or not isinstance(tensor.args[0], Call) or not tensor.args[0].args:
        return None
    buffer, dtype, offset, shape = (
        tensor.args[0].args[0],
        _TORCH.get(str(tensor.args[1])),
        tensor.args[2],
        tensor.args[3],
    )
    total = prod(integers(shape))
    if dtype is None or offset != 0 or not isinstance(buffer, Buffer):
        return None
    return elements_of(stored, Call(ARRAY, (buffer, dtype, (total,), "C")))


def diff_arrays(before: Numbers | None, after: Numbers | None) -> tuple[ArrayDiff, str] | None:
    """Both versions, and what has to be said of how they were read; None if there is no number to show."""
    sides = [(label, side) for label, side in (("before", before), ("after", after)) if side is not None]
    measured = [(label, _measure(side)) for label, side in sides]
    if all(not one.values for _, one in measured):
        return None
    low = min(one.low for _, one in measured)
    high = max(one.high for _, one in measured)
    all_stats = [_stats(one) for _, one in measured]
    rows = tuple(
        ArrayRow(label, _histogram(one.values, low, high), tuple(_mark_changes(stats, all_stats[0] if at else None)))
        for at, ((label, one), stats) in enumerate(zip(measured, all_stats, strict=True))
    )
    longest = max(side.count for _, side in sides)
    note = f"Worked out from {MOST_READ:,} of {longest:,} values." if longest > MOST_READ else ""
    return ArrayDiff(rows), note


def _measure(numbers: Numbers) -> _Measured:
    values: list[float] = []
    seen = 0
    for stretch in numbers.sample(MOST_READ):
        seen += len(stretch)
        values += [found for found in stretch if isfinite(found)]
    if not values:
        return _Measured(inf, -inf, 0.0, 0.0, seen, values)
    mean = sum(values) / len(values)
    sd = sqrt(sum((found - mean) ** 2 for found in values) / len(values))
    return _Measured(min(values), max(values), mean, sd, seen - len(values), values, numbers.is_boolean)


def _stats(one: _Measured) -> list[tuple[str, str]]:
    if not one.values:
        return [("missing", f"{one.missing:,}")]
    if one.is_boolean:
        true = round(sum(one.values))
        return [("True", f"{true:,}"), ("False", f"{len(one.values) - true:,}")]
    found = [("min", one.low), ("mean", one.mean), ("max", one.high), ("sd", one.sd)]
    rows = [(name, _number(value)) for name, value in found]
    return [*rows, ("missing", f"{one.missing:,}")] if one.missing else rows


def _number(value: float) -> str:
    """Four digits, and all of a large whole number."""
    text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.4g}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def _mark_changes(
    stats: Sequence[tuple[str, str]], before: Sequence[tuple[str, str]] | None
) -> list[tuple[str, str, bool]]:
    known = dict(before or ())
    return [(name, text, before is not None and known.get(name) != text) for name, text in stats]


def _histogram(values: Sequence[float], low: float, high: float) -> tuple[float, ...]:
    """How many values lie in each sixteenth of the range of both versions, the most being 1."""
    counts = [0] * _BARS
    if not values:
        return tuple(map(float, counts))
    scale = _BARS / (high - low) if high > low else 0.0
    if not isfinite(scale):
        scale = 0.0
    for value in values:
        counts[min(_BARS - 1, int((value - low) * scale))] += 1
    most = max(counts)
    return tuple(round(count / most, 3) for count in counts)


# What reading memory that nobody's pickler wrote may end with.
_UNREADABLE = (StoreError, struct.error, ArithmeticError, IndexError, KeyError, RecursionError, TypeError, ValueError)


class VariableDiff(msgspec.Struct, frozen=True, rename={"diff": "face"}):
    """What became of a variable: lines, a sentence below, and a diff where there is more to see."""

    name: str
    how: Sign
    note: str
    lines: tuple[str, ...]
    diff: ValueDiff | None


class _Version(msgspec.Struct, frozen=True):
    """One side, if the variable is there."""

    at: ObjectId | None
    entry: Entry | None
    summary: Preview | None
    stored: Stored | None


def variable(context: QueryContext, args: OfVariable) -> VariableDiff:
    """One variable against the commit's first parent, or another commit.

    Raises:
        NameNotFoundError: neither of them has it.
    """
    id, commit = context.resolve(args.id)
    before = before_of(context, commit, args.against)
    sides = [None if before is None else before[0], id]
    name = _name(context, sides, args.name)
    if name is None:
        raise NameNotFoundError(
            args.name, commit_text(commit), describe.names_close_to(context.repo, commit, args.name)
        )
    old, new = (_version(context, at, name) for at in sides)
    hows = {one.name: one.how for one in find_differences(context.repo, sides[0], id)}
    how: Sign = sign_of(hows[name]) if hows.get(name, "=") != "=" else "="
    diff, note = _diff(context, old, new, name)
    lines = tuple(_lines(context, old, new, diff)) if how == "~" else ()
    if diff is None and not lines:
        note = note or "There is no more to see of it without loading it."
    return VariableDiff(shorten_line(name), how, note, lines, diff)


def _name(context: QueryContext, sides: Sequence[ObjectId | None], label: str) -> str | None:
    """The variable of this name, or the one that is shown under it: names may be long, or hold what is not shown."""
    trees = [context.repo.tree_at(at) for at in sides if at is not None]
    if any(label in tree for tree in trees):
        return None if label.startswith("\0") else label
    names = (name for tree in reversed(trees) for name in tree.names() if not name.startswith("\0"))
    return next((name for name in names if shorten_line(name) == label), None)


def _lines(context: QueryContext, old: _Version, new: _Version, diff: ValueDiff | None) -> Iterator[str]:
    """What a diff does not say: of an array where it differs, and of what has no diff at all."""
    are_pictures = isinstance(diff, PicturesDiff)  # they differ, as is seen and said in the line above
    whole = diff is None or (isinstance(diff, TableDiff) and not diff.rows)
    if whole or isinstance(diff, (ArrayDiff, PicturesDiff)):
        for line in _details(context, old, new):
            if whole or not (line.startswith(("values ", "size ")) or (are_pictures and "may differ" in line)):
                yield shorten_line(line, 320)


def _details(context: QueryContext, old: _Version, new: _Version) -> tuple[str, ...]:
    try:
        return details_of(context.repo, old.entry, new.entry)
    except StoreError:
        return ("It is damaged in the store.",)


def _version(context: QueryContext, at: ObjectId | None, name: str) -> _Version:
    entry = None if at is None else context.repo.tree_at(at).get(name)
    if entry is None:
        return _Version(at, None, None, None)
    summary = summary_of(context.repo, entry)
    hidden = previews.names_a_secret(name) or summary is None
    try:
        stored = None if hidden else read_stored(context.repo, entry)
    except _UNREADABLE:
        stored = None  # damaged, or of nobody's making: what was noted can still be shown
    return _Version(at, entry, summary, stored)


def _diff(context: QueryContext, old: _Version, new: _Version, name: str) -> tuple[ValueDiff | None, str]:
    """The diff that fits what both sides are, and what to say below it."""
    known = [side.summary for side in (old, new) if side.summary is not None]
    if not known:
        return None, "It was not described when it was committed."
    if previews.names_a_secret(name):
        return None, "Its name says that it is a secret, so it is not shown."
    if any(map(previews.is_picture, known)):
        return _pictures(context, old, new, name)
    if any(side.stored is not None and is_named_a_secret(side.stored) for side in (old, new)):
        return None, "Its own name says that it is a secret, so it is not shown."
    if any(is_hidden(summary) for summary in known):
        return None, "What it holds looks like a secret, so it is not shown."
    for compare in (_read, _compare_noted):
        try:
            found = next(compare(old, new, known), None)
        except _UNREADABLE:
            continue
        if found is not None:
            return found
    return None, ""


def _differ(old: _Version, new: _Version) -> bool:
    return old.entry is not None and new.entry is not None and not old.entry.is_same_value(new.entry)


def _read(old: _Version, new: _Version, known: list[Preview]) -> Iterator[tuple[ValueDiff, str]]:
    """Diffs read from what is stored."""
    kinds = {summary.kind for summary in known}
    stored = [side.stored for side in (old, new)]
    if any(side.entry is not None and side.stored is None for side in (old, new)):
        return
    if kinds <= {"array", "series", "tensor"} and not any(_has_secret_rows(side) for side in (old, new)):
        numbers = [None if one is None else numbers_in(one) for one in stored]
        if all(one is None or number is not None for one, number in zip(stored, numbers, strict=True)):
            found = diff_arrays(*numbers)
            if found is not None:
                yield found
    if kinds <= {"frame", "series"}:
        frames = [_frame(side) for side in (old, new)]
        if all(side.entry is None or frame is not None for side, frame in zip((old, new), frames, strict=True)):
            diff, note = diff_tables(*frames)
            # Where rows came or went all counts are others, which says nothing of a column.
            counts = (
                previews.count_changes(*known) if len({summary.shape[:1] for summary in known}) < len(known) else ()
            )
            yield diff, " ".join(filter(None, (note, *(f"{shorten_line(count)}." for count in counts))))
    if kinds == {"text"} and not any(summary.masked for summary in known):
        texts = ["" if one is None else one.value for one in stored]
        if isinstance(texts[0], str) and isinstance(texts[1], str):
            yield TextDiff(diff_lines(previews.mask_text(texts[0]), previews.mask_text(texts[1]))), ""
    if kinds == {"object"}:
        rows = attribute_rows(*stored)
        if rows:
            yield _pairs(rows, differ=_differ(old, new))


def _frame(side: _Version) -> Frame | None:
    return frame_of(side.stored, side.summary) if side.stored is not None and side.summary is not None else None


def _has_secret_rows(side: _Version) -> bool:
    """Whether a label of a series may say that its value is a secret, which its smallest or largest number would show."""
    if side.summary is None or side.summary.kind != "series":
        return False
    frame = _frame(side)
    return side.summary.masked or (frame is not None and may_name_a_secret(frame.labels))


def _compare_noted(old: _Version, new: _Version, known: list[Preview]) -> Iterator[tuple[ValueDiff, str]]:
    """Compare what was noted when the values were committed."""
    kinds = {summary.kind for summary in known}
    if kinds == {"frame"}:
        diff = diff_previews(old.summary, new.summary)
        if diff is not None:
            yield diff, "The first rows as they were noted; the others are kept in a way that is not read here."
    if kinds == {"series"}:
        diff = diff_series(old.summary, new.summary)
        if diff is not None:
            yield diff, "The first values as they were noted; the others are kept in a way that is not read here."
    if kinds == {"mapping"} or kinds == {"object"}:
        sides = (old.stored, new.stored) if kinds == {"mapping"} else (None, None)
        rows, within = key_rows(old.summary, new.summary, *sides), _within_widgets(old.stored, new.stored)
        if rows or within:
            total = max(map(previews.count_of_columns, known))
            noun = previews.noun_of_columns(known[0])
            yield _pairs(rows, within, differ=_differ(old, new), total=total, noun=noun)


def _within_widgets(old: Stored | None, new: Stored | None) -> tuple[Pair, ...]:
    """What changed in the widgets that a widget holds."""
    if old is None or new is None:
        return ()
    return tuple(Pair(shorten_line(path), was, now, True) for path, was, now in widget_changes(old, new))


def _pairs(
    rows: tuple[Pair, ...], within: tuple[Pair, ...] = (), *, differ: bool, total: int = 0, noun: str = "key"
) -> tuple[ValueDiff, str]:
    some = f"{len(rows)} of {total:,} {noun}s." if total > len(rows) else ""
    is_hidden = differ and not any(row.changed for row in (*within, *rows))
    hidden = "The change is not visible in this preview." if is_hidden else ""
    return PairsDiff(("before", "after"), (*within, *rows)), " ".join(filter(None, (some, hidden)))


def _pictures(context: QueryContext, old: _Version, new: _Version, name: str) -> tuple[ValueDiff | None, str]:
    """What the cells that made the figures showed. No figure is drawn here."""
    found = [_picture(context, side, name) for side in (old, new)]
    pictures, sources = [picture for picture, _ in found], [source for _, source in found if source]
    if not any(pictures):
        return None, "No cell that changed it showed a picture of it."
    return PicturesDiff(*pictures), f"As {' and '.join(dict.fromkeys(sources))} showed it."


def _picture(context: QueryContext, side: _Version, name: str) -> tuple[str | None, str]:
    if side.entry is None or side.at is None:
        return None, ""
    last = next(iter(context.repo.log_of_name(side.at, name)), None)
    picture = None if last is None else picture_of(context, last[1])
    return picture, commit_text(last[1]) if last is not None and picture is not None else ""
