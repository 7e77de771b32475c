"""Long containers are saved in segments, and still share objects with the variables that hold parts of them."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from agent_kernel.values import aliases, atoms, groups, introspection, segments
from agent_kernel.values.aliases import Dump, reach
from tests.support.notebooks import Notebook, names_changed

_FROM_LENGTH = segments.FROM_LENGTH // 5


@pytest.fixture(autouse=True)
def bounds(request: pytest.FixtureRequest) -> None:
    """Containers are long from a fifth of the length on, but for those with all their rows."""
    if "all its rows" not in request.node.name:
        request.getfixturevalue("long_from_a_fifth")
        assert segments.FROM_LENGTH == _FROM_LENGTH


LONG = {
    "lists": "rows = [[n] for n in range(1000)]",
    "dicts": "rows = [{'id': n, 'tags': [str(n)]} for n in range(1000)]",
    "instances": "class Row:\n    def __init__(self, n):\n        self.cells = [n]\nrows = [Row(n) for n in range(1000)]",
}
HOLDERS = {
    "the loop variable": ("for last in rows: pass", "last is rows[-1]"),
    "a name": ("last = rows[-1]", "last is rows[-1]"),
    "a list": ("some = [rows[3], rows[800]]", "some[0] is rows[3] and some[1] is rows[800]"),
    "a dict": ("by_id = {n: rows[n] for n in (1, 500)}", "by_id[1] is rows[1] and by_id[500] is rows[500]"),
    "a slice": ("head = rows[:5]", "all(a is b for a, b in zip(head, rows))"),
    "two names": ("first = rows[0]\nlast = rows[-1]", "first is rows[0] and last is rows[-1]"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("made", LONG.values(), ids=LONG)
@pytest.mark.parametrize(("holds", "look"), HOLDERS.values(), ids=HOLDERS)
@pytest.mark.parametrize("apart", [False, True], ids=["one cell", "two cells"])
def test_what_holds_a_row_holds_the_row_of_the_list(made: str, holds: str, look: str, apart: bool) -> None:
    with Notebook() as nb:
        if apart:
            nb.run(made)
            commit = nb.run(holds)
        else:
            commit = nb.run(f"{made}\n{holds}")
        nb.run("for name in [n for n in list(globals()) if not n.startswith('_')]:\n    del globals()[name]")
        nb.checkout(commit)
        assert nb.look(look)


OF_TUPLES = {
    "a list": ("rows = [(n, [n]) for n in range(N)]", "rows[9]"),
    "a dict": ("rows = {n: (n, {'k': n}) for n in range(N)}", "rows[9]"),
    "a tuple": ("rows = tuple((n, {n}) for n in range(N))", "rows[9]"),
    "tuples in tuples": ("rows = [(n, (n, (n, [n]))) for n in range(N)]", "rows[9][1][1]"),
    "bytearrays": ("rows = [(n, bytearray(b'a')) for n in range(N)]", "rows[9]"),
    "below a list": ("rows = {'k': [(n, [n]) for n in range(N)]}", "rows['k'][9]"),
}


_SIZES = {"short": 20, "long": _FROM_LENGTH + 20, "very long": _FROM_LENGTH + 100}
_VERY_LONG = 25_000  # above all bounds from which containers are treated in another way


@pytest.fixture
def early_bounds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of rows. What is very long is so from a tenth of the length on, but for the one with all its rows."""
    if request.param == "all its rows":
        return _VERY_LONG
    if request.param == "very long":
        monkeypatch.setattr(aliases, "LARGE", aliases.LARGE // 10)
        monkeypatch.setattr(segments, "FROM_LENGTH_WITHIN", segments.FROM_LENGTH)
        monkeypatch.setattr(atoms, "LONG", atoms.LONG // 10)
    return _SIZES[request.param]


@pytest.mark.sampled
@pytest.mark.parametrize("early_bounds", [*_SIZES, pytest.param("all its rows", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize(("made", "row"), OF_TUPLES.values(), ids=OF_TUPLES)
@pytest.mark.parametrize(
    ("holds", "held"),
    [
        ("t = {row}", "t"),
        ("t = [{row}]", "t[0]"),
        ("t = ({row}, 1)", "t[0]"),
        ("t = [{row}, *map(str, range(M))]", "t[0]"),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["one cell", "two cells"])
def test_what_holds_a_tuple_holds_what_is_in_it(
    early_bounds: int, made: str, row: str, holds: str, held: str, *, apart: bool
) -> None:
    size = early_bounds
    holds = holds.replace("M", str(_VERY_LONG if size == _VERY_LONG else _SIZES["very long"]))
    cells = [made.replace("N", str(size)), holds.format(row=row)]
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        if apart:
            nb.run(cells.pop(0))
        commit = nb.run("\n".join(cells))
        nb.run(f"{held}[1].__init__([5])" if "{'k'" not in made else f"{held}[1].clear()")
        nb.checkout(commit)
        assert nb.look(f"{held}[1] is {row}[1] and {held}[0] == 9")
    with Notebook(Repository.open(store)) as again:
        again.checkout(commit)
        assert again.look(f"{held}[1] is {row}[1] and {held}[0] == 9")


_ROWS = ["(n, Thing())", "(n, (n, Thing()))", "frozenset([Thing()])", "(n, [Thing()])", "Row(n, Thing())"]
_HOLDS = ["row = {0}", "row = [{0}]", "row = ({0}, 1)", "row = Thing()\nrow.row = {0}"]
_MADE = [
    ("rows = {{n: {0} for n in range(500)}}", "rows[0]"),
    ("rows = {{{0} for n in range(500)}}", "next(iter(rows))"),
    ("rows = {{'all': [{0} for n in range(2_500)]}}", "rows['all'][0]"),
]
_LIST = ("rows = [{0} for n in range(500)]", "rows[0]")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("row", "holds", "made", "first"),
    [*((row, holds, *_LIST) for row in _ROWS for holds in _HOLDS), *((_ROWS[0], _HOLDS[0], *made) for made in _MADE)],
)
def test_what_only_a_tuple_holds_stays_shared_when_it_changes(row: str, holds: str, made: str, first: str) -> None:
    with Notebook() as nb:
        nb.run(_THINGS)
        nb.run(made.format(row))
        nb.run(holds.format(first))
        nb.run("things(row)[0].seen = 1")
        changed = nb.run("rows;")
        nb.run("row;")
        assert nb.session.commit(full=True).commit is None, "a look at everything finds nothing else"
        nb.session.undo()
        assert nb.look("things(row)[0] in things(rows) and not hasattr(things(row)[0], 'seen')")
        nb.checkout(changed)
        assert nb.look("things(row)[0] in things(rows) and things(row)[0].seen") == 1


_THINGS = """
import collections
Row = collections.namedtuple("Row", "n thing")
class Thing: pass
def things(value):
    if isinstance(value, Thing) and not hasattr(value, "row"):
        return [value]
    parts = [value.row] if isinstance(value, Thing) else value.values() if isinstance(value, dict) else value
    return [] if isinstance(parts, (int, str)) else [thing for part in parts for thing in things(part)]
"""


def test_two_long_lists_may_share_tuples() -> None:
    with Notebook() as nb:
        nb.run("rows = [(n, [n]) for n in range(1_000)]")
        commit = nb.run("by_id = {row[0]: row for row in rows}; some = rows[5:800:9]")
        report = nb.run("some[0][1].append(7)")
        assert names_changed(report) == {"rows", "by_id", "some"}
        nb.checkout(commit)
        assert nb.look("all(by_id[n][1] is row[1] for n, row in enumerate(rows)) and some[3][1] is rows[32][1]")
        assert nb.look("rows[5]") == (5, [5])


def test_a_row_that_is_changed_through_another_name_changes_the_list() -> None:
    with Notebook() as nb:
        nb.run(LONG["dicts"])
        before = nb.run("for row in rows: pass")
        report = nb.run("row['id'] = 'changed'")
        assert names_changed(report) == {"row", "rows"}
        assert names_changed(nb.run("rows[3]['id'] = 5")) == {"rows"}
        after = nb.run("row = None")
        nb.checkout(before)
        assert nb.look("(row['id'], rows[-1] is row, rows[3]['id'])") == (999, True, 3)
        nb.checkout(after)
        assert nb.look("(row, rows[-1]['id'], rows[3]['id'])") == (None, "changed", 5)


def test_two_long_lists_may_share_rows() -> None:
    with Notebook() as nb:
        nb.run(LONG["dicts"])
        commit = nb.run("other = rows[200:800]")
        nb.run("other[0]['id'] = 'x'")
        nb.checkout(commit)
        assert nb.look("(len(other), other[0] is rows[200], other[0]['id'])") == (600, True, 200)


def test_sharing_that_leaves_all_contents_equal_is_a_change() -> None:
    with Notebook() as nb:
        nb.run("rows = [[7] for n in range(1000)]")
        before = nb.run("x = 1")
        shared = nb.run("rows[800] = rows[1]")
        assert names_changed(shared) == {"rows"}
        nb.checkout(before)
        assert nb.look("rows[800] is rows[1]") is False
        nb.checkout(shared)
        assert nb.look("rows[800] is rows[1]")


def test_sharing_deep_inside_is_found_before_anything_is_replaced() -> None:
    with Notebook() as nb:
        before = nb.run("rows = [{'t': [7]} for n in range(1000)]")
        nb.run("rows[800]['t'] = rows[1]['t']")
        nb.checkout(before)
        assert nb.look("rows[800]['t'] is rows[1]['t']") is False
        nb.session.undo()
        assert nb.look("rows[800]['t'] is rows[1]['t']")


_SLOTTED = """
class Slotted:
    __slots__ = ("parts",)
    def __init__(self):
        self.parts = []
"""
# The rows, a part of a row that is equal to that of a row far away, and the change that makes them one.
ONE_PART = {
    "slots": (_SLOTTED + "rows = [Slotted() for n in range(1000)]", "rows[{0}].parts"),
    "slots in a dict": (_SLOTTED + "rows = {n: Slotted() for n in range(1000)}", "rows[{0}].parts"),
    "slots beside lists": (_SLOTTED + "rows = [Slotted() if n % 2 else [n] for n in range(1001)]", "rows[{0}].parts"),
    "an object with slots in a row": (_SLOTTED + "rows = [[Slotted()] for n in range(1000)]", "rows[{0}][0]"),
    "a deque": ("from collections import deque\nrows = [{'q': deque()} for n in range(1000)]", "rows[{0}]['q']"),
    "a NaN": ("rows = [{'x': float('nan')} for n in range(1000)]", "rows[{0}]['x']"),
}


@pytest.mark.parametrize(("made", "part"), ONE_PART.values(), ids=ONE_PART)
def test_an_equal_part_of_a_row_far_away_is_shared_from_there_on(made: str, part: str) -> None:
    one, other = part.format(1), part.format(801)
    with Notebook() as nb:
        before = nb.run(made)
        shared = nb.run(f"{one} = {other}")
        assert names_changed(shared) == {"rows"}
        nb.checkout(before)
        assert nb.look(f"{one} is {other}") is False
        nb.checkout(shared)
        assert nb.look(f"{one} is {other}")


def test_what_is_put_into_slots_of_a_row_changes_with_its_own_variable() -> None:
    with Notebook() as nb:
        nb.run(_SLOTTED + "rows = [Slotted() for n in range(1000)]\npart = []")
        nb.run("rows[5].parts = part")
        report = nb.run("part.append(1)")
        assert names_changed(report) == {"part", "rows"}
        nb.session.undo()
        assert nb.look("(part is rows[5].parts, part)") == (True, [])
        nb.checkout(report)
        assert nb.look("(part is rows[5].parts, rows[5].parts)") == (True, [1])


def test_to_change_one_of_many_objects_with_slots_walks_one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Notebook() as nb:
        nb.run(_SLOTTED + "rows = [Slotted() for n in range(2000)]")
        walks: list[object] = []
        find: Any = aliases.find_shared_below

        def noted(*given: object) -> Any:
            walks.append(None)
            return find(*given)

        monkeypatch.setattr(aliases, "find_shared_below", noted)
        nb.run("rows[5].parts.append(1)")
        assert len(walks) == 1


def test_what_joins_a_long_list_and_a_holder_of_its_rows_is_saved_with_them() -> None:
    with Notebook() as nb:
        nb.run("rows = [[n] for n in range(600)]")
        nb.run("first = [rows[3]]")
        before = nb.run("rows[5].append(1)")
        after = nb.run("pair = (rows, []); rows[7] = 5")
        assert [*after.unsaved] == []
        nb.checkout(before)
        nb.checkout(after)
        assert nb.look("pair[0] is rows and first[0] is rows[3] and rows[7] == 5")


_MANY_ROWS = "[{'n': n} for n in range(2500)]"
# Cells, and what holds of the rows after the last one.
TWICE = {
    "a copy, and a document with another": (
        [f"rows = {_MANY_ROWS}", "copy = list(rows)", "document = {'rows': list(rows)}"],
        "copy[7] is rows[7] and document['rows'][7] is rows[7]",
    ),
    "what begins further on, and a document with all": (
        [f"rows = {_MANY_ROWS}", "rest = rows[500:]", "document = {'rows': rows}"],
        "rest[0] is rows[500] and document['rows'] is rows",
    ),
    "two in one document": (
        [f"document = {{'a': {_MANY_ROWS}, 'b': {_MANY_ROWS}}}", "document['b'][200:600] = document['a'][200:600]"],
        "document['b'][300] is document['a'][300]",
    ),
    "two places of one list": (
        [f"rows = {_MANY_ROWS}", "rows += rows[200:600]", "rows"],
        "rows[2500] is rows[200] and rows[2899] is rows[599]",
    ),
}


@pytest.mark.parametrize(("cells", "shared"), TWICE.values(), ids=TWICE)
def test_rows_that_stand_in_two_long_containers_are_shared_though_both_were_seen_before(
    cells: list[str], shared: str
) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run("pass")
        *_, last = map(nb.run, cells)
        nb.checkout(first)
        nb.checkout(last)
        assert nb.look(shared)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(last)
        assert nb.look(shared)


WITHIN = {
    "a list in a dict": ("rows = [{'v': [n]} for n in range(1000)]", "part = rows[7]['v']", "rows[7]['v'] is part"),
    "a list in a dict of dicts": (
        "rows = {n: {'v': [n]} for n in range(1000)}",
        "part = rows[7]['v']",
        "rows[7]['v'] is part",
    ),
    "deeper": ("rows = [{'v': [[n]]} for n in range(1000)]", "part = rows[7]['v'][0]", "rows[7]['v'][0] is part"),
    "a bytearray": (
        "rows = [{'v': bytearray(b'x')} for n in range(1000)]",
        "part = rows[7]['v']",
        "rows[7]['v'] is part",
    ),
    "what a dict row holds": (
        "rows = [{'a': {'b': [n]}} for n in range(1000)]",
        "part = rows[7]['a']",
        "rows[7]['a'] is part",
    ),
}


@pytest.mark.parametrize(("made", "binds", "shared"), WITHIN.values(), ids=WITHIN)
def test_what_lies_in_a_row_is_shared_with_a_name_that_a_later_cell_gives_it(
    made: str, binds: str, shared: str
) -> None:
    with Notebook() as nb:
        nb.run(made)
        bound = nb.run(binds)
        assert names_changed(bound) == {"part"}
        changes = "part['new'] = 1" if "'a']" in binds else "part.append(1)"
        changed = nb.run(changes)
        assert names_changed(changed) == {"part", "rows"}
        for commit in (bound, changed, bound):
            nb.checkout(commit)
            assert nb.look(shared)
        nb.rollback(changed)
        assert nb.look(f"{shared} and len(part) == 2")


INDEXES = {
    "a slice": ("other = rows[200:1800]", "other[5] is rows[205]"),
    "an index": ("other = {n: row for n, row in enumerate(rows)}", "other[5] is rows[5]"),
    "in another order": ("other = sorted(rows, key=lambda row: -row['v'])", "other[-6] is rows[5]"),
    "a few of them": ("other = [{'v': n} for n in range(1800)] + rows[1990:]", "other[-1] is rows[1999]"),
}


@pytest.mark.parametrize(("binds", "shared"), INDEXES.values(), ids=INDEXES)
def test_two_long_containers_share_their_rows_through_all_that_happens(binds: str, shared: str) -> None:
    with Notebook() as nb:
        nb.run("rows = [{'v': n, 'n': str(n)} for n in range(2000)]\nsmall = [3]")
        bound = nb.run(binds)
        assert names_changed(bound) == {"other"}
        assert not nb.run("rows; other").changed
        both = nb.run("rows[1995]['v'] = rows[205]['v'] = rows[5]['v'] = -1")
        assert names_changed(both) == {"rows", "other"}
        one = nb.run("rows.append({'v': small, 'n': ''})")
        assert names_changed(one) == {"rows"}
        assert names_changed(nb.run("small.append(4)")) == {"rows", "small"}
        held = nb.run("part = rows[77]")
        assert names_changed(nb.run("part['v'] = 7")) >= {"rows", "part"}
        assert not nb.session.commit(full=True).changed
        for commit in (held, bound, one, both):
            nb.checkout(commit)
            assert nb.look(shared)
        nb.checkout(one)
        assert nb.look("rows[-1]['v'] is small")
        nb.checkout(held)
        assert nb.look("rows[77] is part and rows[-1]['v'] is small")


ONCE_MORE = {
    "in every place": "one = [0]\nrows = [one] * 500\ndel one",
    "in two places": "rows = [[n] for n in range(500)]\nrows[400] = rows[1]",
    "in one place": "rows = [[n] for n in range(500)]",
}


@pytest.mark.parametrize("made", ONCE_MORE.values(), ids=ONCE_MORE)
def test_what_holds_a_row_of_the_list_changes_without_the_list(made: str) -> None:
    with Notebook() as nb:
        nb.run(made)
        assert names_changed(nb.run("some = [rows[1]]")) == {"some"}
        for change in ("some.append(1)", "some.append(2)", "some = some[:1]", "some.append(3)"):
            assert names_changed(nb.run(change)) == {"some"}
        assert names_changed(nb.run("rows.append([9])")) == {"rows"}
        assert names_changed(nb.run("some[0].append(1)")) == {"rows", "some"}
        assert names_changed(nb.run("some.append(4)")) == {"some"}
        assert nb.session.commit(full=True).changed == ()


@pytest.mark.parametrize("puts", ["rows.append({'t': part})", "rows[-1]['u'] = part", "rows[600]['t'] = part"])
@pytest.mark.parametrize("apart", [False, True], ids=["one cell", "two cells"])
def test_what_lies_in_a_row_is_shared_with_the_row_that_gets_it_too(puts: str, apart: bool) -> None:
    with Notebook() as nb:
        nb.run("rows = [{'t': [n]} for n in range(1000)]")
        if apart:
            nb.run("part = rows[3]['t']")
        put = nb.run(puts if apart else f"part = rows[3]['t']\n{puts}")
        nb.run("rows = part = None")
        nb.checkout(put)
        assert nb.look("rows[3]['t'] is part")
        assert nb.look("any(part is held for n in (-1, 600) for held in rows[n].values())")


def test_numbers_taken_from_the_rows_share_nothing_with_them() -> None:
    with Notebook() as nb:
        nb.run("rows = [{'v': n} for n in range(2000)]")
        nb.run("values = [row.get('v') for row in rows]")
        assert names_changed(nb.run("rows[5]['v'] = 5_000_000")) == {"rows"}
        nb.run("rows = None")
        assert names_changed(nb.run("values[0] = -1")) == {"values"}
        assert nb.session.commit(full=True).changed == ()


def test_pickling_many_instances_is_no_change_of_their_class() -> None:
    with Notebook() as nb:
        nb.run("class Row: pass\nrows = [Row() for _ in range(1000)]")  # copyreg notes the slots in the class
        assert names_changed(nb.run("y = 1")) == {"y"}


@pytest.mark.parametrize("parts", ["[q.t for q in rows]", "tuple(q.t for q in rows)", "{q.i: q.t for q in rows}"])
@pytest.mark.parametrize("long", ["list", "tuple"])
def test_a_long_container_of_parts_of_instances_stays_shared_when_another_part_changes(long: str, parts: str) -> None:
    with Notebook() as nb:
        nb.run("class Row:\n    def __init__(self, i):\n        self.i, self.t = i, [i]")
        nb.run(f"rows = {long}(Row(i) for i in range(500))")
        nb.run(f"held = {parts}")
        changed = nb.run("rows[232].i = -1")
        nb.run("held = rows = None")
        nb.checkout(changed)
        assert nb.look("all(rows[n].t is held[n] for n in range(200))")


N = 500


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "FROM_LENGTH_WITHIN", N)


ROWS = f"[{{'id': n, 'tags': [n]}} for n in range({N})]"
CLASS = "class Box:\n    def __init__(self, rows):\n        self.rows, self.name = rows, 'b'"
# What is made, a change below it, what shows the change, and what has to hold in every state.
WITHIN_VALUES = {
    "a document": (f"doc = {{'meta': {{'n': 1}}, 'rows': {ROWS}}}", "doc['rows'][7]['tags'].append(1)", "doc['rows'][7]", "len(doc)"),
    "beside the rows": (f"doc = {{'meta': {{'n': 1}}, 'rows': {ROWS}}}", "doc['meta']['n'] = 2", "doc['meta']", "len(doc['rows'])"),
    "a list of two names": (f"doc = {ROWS}; other = doc", "other[5]['id'] = -1", "doc[5]", "doc is other"),
    "words of two names": (f"doc = [str(n) for n in range({N})]; other = doc", "other[5] = 'x'", "doc[5]", "doc is other"),
    "an attribute": (f"{CLASS}\ndoc = Box({ROWS})", "doc.rows[5]['id'] = -1", "doc.rows[5]", "doc.name"),
    "a name and an attribute": (f"{CLASS}\nrows = {ROWS}; doc = Box(rows)", "rows[5]['id'] = -1", "rows[5]", "doc.rows is rows"),
    "a name and an item": (f"rows = {ROWS}; doc = {{'r': [rows]}}", "rows.append(1)", "len(rows)", "doc['r'][0] is rows"),
    "twice in one value": (f"doc = [{ROWS}] * 2", "doc[0].pop()", "len(doc[1])", "doc[0] is doc[1]"),
    "a tuple": (f"doc = {{'r': tuple({ROWS})}}", "doc['r'][3]['id'] = 9", "doc['r'][3]", "type(doc['r'])"),
    "a set": (f"doc = {{'r': set(range({N}))}}", "doc['r'].discard(5); doc['r'].add(-5)", "(5 in doc['r'], -5 in doc['r'])", "type(doc['r'])"),
    "a dict": (f"doc = [{{n: [n] for n in range({N})}}]", "doc[0][77].append(1)", "doc[0][77]", "list(doc[0])[:3]"),
    "two of them": (f"doc = {{'a': {ROWS}, 'b': {ROWS}}}", "doc['b'][3]['id'] = 'x'", "(doc['a'][3], doc['b'][3])", "doc['a'] is doc['b']"),
    "two that share a row": (f"doc = {{'a': {ROWS}, 'b': {ROWS}}}; doc['b'][8] = doc['a'][9]", "doc['b'][8]['id'] = 'x'", "doc['a'][9]", "doc['b'][8] is doc['a'][9]"),
    "one row twice": (f"doc = {{'a': {ROWS}}}; doc['a'][8] = doc['a'][480]", "doc['a'][8]['id'] = 'x'", "doc['a'][480]", "doc['a'][8] is doc['a'][480]"),
    "the loop variable": (f"doc = {{'a': {ROWS}}}\nfor row in doc['a']: pass", "row['id'] = 'x'", "doc['a'][-1]", "doc['a'][-1] is row"),
    "a row beside the rows": (f"doc = {{'a': {ROWS}}}; doc['first'] = doc['a'][0]", "doc['first']['id'] = 'x'", "doc['a'][0]", "doc['a'][0] is doc['first']"),
    "what lies in a row": (f"doc = {{'a': {ROWS}}}; tags = doc['a'][4]['tags']", "tags.append('x')", "doc['a'][4]", "doc['a'][4]['tags'] is tags"),
    "rows that lead back": (f"doc = {{'a': {ROWS}}}\nfor row in doc['a']: row['in'] = doc\ndel row", "doc['a'][3]['id'] = 'x'", "doc['a'][3]['id']", "doc['a'][-1]['in'] is doc"),
    "one row leads back": (f"doc = {{'a': {ROWS}}}; doc['a'][300]['in'] = doc['a']", "doc['a'][3]['id'] = 'x'", "doc['a'][3]['id']", "doc['a'][300]['in'] is doc['a']"),
    "beside an array": (f"import numpy as np\ndoc = {{'a': {ROWS}, 'x': np.arange(9.0)}}", "doc['x'][2] = -1", "doc['x'].tolist()", "len(doc['a'])"),
    "beside a view": (f"import numpy as np\nx = np.arange(9.0)\ndoc = {{'a': {ROWS}, 'x': x[3:]}}", "x[4] = -1", "doc['x'].tolist()", "doc['x'].base is x"),
    "made of it": (f"class Sum:\n    def __init__(self, rows):\n        self.rows, self.sum = rows, sum(rows)\n    def __reduce__(self):\n        return Sum, (self.rows,)\ndoc = Sum(list(range({N})))", "doc.rows[0] = 5; doc.sum += 5", "(doc.rows[0], doc.sum)", "type(doc.rows)"),
    "with a state": (f"class S(str): pass\ndoc = {{'a': [S(n) for n in range({N})]}}", "doc['a'][5].note = 'x'", "vars(doc['a'][5])", "type(doc['a'][5]) is S"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("made", "change", "shows", "holds"), WITHIN_VALUES.values(), ids=WITHIN_VALUES)
def test_a_long_container_within_a_value_comes_back_with_all_that_it_shares(
    made: str, change: str, shows: str, holds: str
) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(made)
        before, always = nb.look(f"repr({shows})"), nb.look(f"repr({holds})")
        assert not nb.run(f"{shows}; {holds}").changed
        second = nb.run(change)
        assert second.changed
        after = nb.look(f"repr({shows})")
        assert not nb.session.commit(full=True).changed
        for commit, expected in ((first, before), (second, after), (first, before)):
            nb.checkout(commit)
            assert nb.look(f"(repr({shows}), repr({holds}))") == (expected, always)
            assert not nb.run(f"{shows}; {holds}").changed
        assert nb.run(change).changed
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look(f"(repr({shows}), repr({holds}))") == (after, always)


@pytest.mark.usefixtures("short")
def test_what_a_class_leaves_out_of_its_state_is_not_stored() -> None:
    with Notebook() as nb:
        nb.run("class Box:\n    def __getstate__(self):\n        return {'n': self.n}")
        commit = nb.run(f"box = Box(); box.n = 1; box.cache = ['secret' + str(n) for n in range({N})]")
        assert commit.written_bytes < 2_000
        assert not nb.run("box.cache.append(1)").changed
        nb.run("box = None")
        nb.checkout(commit)
        assert nb.look("vars(box)") == {"n": 1}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    "made", ["rows = {n}; other = rows", "rows = {n}; other = {{'r': [rows]}}", "rows = {{'r': {n}}}"]
)
def test_a_long_container_is_dumped_once_in_a_commit_however_many_hold_it(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped: list[int] = []
    dump_parts = segments._dump_parts

    def noted(value: Any, *args: Any, **options: Any) -> Any:
        dumped.append(len(value))
        return dump_parts(value, *args, **options)

    monkeypatch.setattr(segments, "_dump_parts", noted)
    with Notebook() as nb:
        for cell in (made.format(n=ROWS), "rows", "(rows['r'] if type(rows) is dict else rows)[7]['id'] = -1"):
            dumped.clear()
            report = nb.run(cell)
            assert dumped == [N]
        assert report.written_bytes < 40_000  # a segment, not all of them
        dumped.clear()
        nb.run("words = [str(n) for n in range(2_400)]; others = words")
        assert dumped.count(2_400) == 1


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("made", ["rows", "{'r': rows}"])
def test_rows_that_all_lead_back_are_not_dumped_again_for_each_segment(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickled: list[int] = []
    pickle_items = segments.pickle_items

    def noted(items: Any, *args: Any, **options: Any) -> Any:
        pickled.append(len(items))
        return pickle_items(items, *args, **options)

    monkeypatch.setattr(segments, "pickle_items", noted)
    with Notebook() as nb:
        for n in (2 * N, 4 * N, 8 * N):
            pickled.clear()
            nb.run(
                f"rows = [{{}} for n in range({n})]\nvalue = {made}\nfor row in rows: row['in'] = rows\ndel rows, row"
            )
            assert len(pickled) <= 4


@pytest.mark.parametrize("n", [600, 4_200])  # of fewer all objects are noted, of more those that others hold
def test_what_a_large_value_reaches_is_looked_for_again_only_where_it_met_other_objects(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []

    def noted(values: Any, dump: Dump, stops: Any = ()) -> Any:
        walked.extend(len(stream) for stream in dump.streams if len(stream) > n)
        return reach(values, dump, stops)

    with Notebook() as nb:
        nb.run(
            f"from collections import OrderedDict\nd = OrderedDict((i, [i, 'word' + str(i) * 9]) for i in range({n}))"
        )
        monkeypatch.setattr(groups, "reach", noted)
        for cell in ("d", "len(d)", "# d"):
            assert not nb.run(cell).changed
        assert not walked
        nb.run("one = {}; d")  # another name, which may hold a part of it
        assert not nb.run("d[5] = list(d[5])").changed
        assert walked  # an equal one is another object
        before = nb.run("x = 1")
        shared = nb.run("one['d'] = d[5]")
        assert names_changed(shared) == {"one"}
        both = nb.run("one['d'].append(1)")
        assert names_changed(both) == {"d", "one"}
        assert names_changed(nb.run("two = d[7]; d[8].append(1)")) == {"d", "two"}
        assert names_changed(nb.run("two.append(2)")) == {"d", "two"}
        assert not nb.session.commit(full=True).changed
        for commit, length in ((both, 3), (shared, 2)):
            nb.checkout(commit)
            assert nb.look("(one['d'] is d[5], len(d[5]))") == (True, length)
        nb.checkout(before)
        assert nb.look("(one, len(d[5]))") == ({}, 2)


@pytest.mark.parametrize(
    "cell",
    [
        "len(g)",
        "d = dict(g.degree())",
        "names = list(g)",
        "names = set(g)",
        "d = {n: 'a' for n in g}; small = [len(g)]",
    ],
)
def test_a_graph_is_not_walked_for_a_cell_that_reads_it_or_makes_numbers_of_it(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []

    def noted(values: Any, dump: Dump, stops: Any = ()) -> Any:
        walked.extend(len(stream) for stream in dump.streams if len(stream) > 100_000)
        return reach(values, dump, stops)

    with Notebook() as nb:
        nb.run("import networkx as nx\ng = nx.gnm_random_graph(3_000, 9_000, seed=1)")
        monkeypatch.setattr(groups, "reach", noted)
        made = nb.run(cell)
        assert "g" not in names_changed(made)
        assert not walked
        nb.run("part = g._adj[5]; whole = g._node")
        assert walked  # these are parts of it
        assert names_changed(nb.run("part[7] = {'w': 1}; g._adj[7][5] = part[7]")) == {"g", "part"}
        assert names_changed(nb.run("g.nodes[3]['w'] = 2")) == {"g", "whole"}
        nb.checkout(made)
        assert nb.look("(g.has_edge(5, 7), g.nodes[3])") == (False, {})
        nb.checkout("main")
        assert nb.look("g[5][7] is part[7] is g[7][5] and whole is g._node and whole[3] == {'w': 2}")


ODD_ONES = {
    "a list": ("odd = [7]", "odd.append(8)", "(odd, rows[7_919] is odd)"),
    "a text with a state": (
        "class Word(str):\n    pass\nodd = Word('x'); odd.state = [7]",
        "odd.state.append(8)",
        "(type(odd) is Word, odd.state, rows[7_919] is odd)",
    ),
    "a list in a tuple": ("odd = (1, [7])", "odd[1].append(8)", "(odd, rows[7_919][1] is odd[1])"),
    "bytes": ("odd = bytearray(b'7')", "odd.append(8)", "(odd, rows[7_919] is odd)"),
}


@pytest.mark.parametrize("form", ["list", "tuple", "dict"])
@pytest.mark.parametrize(("made", "changes", "look"), ODD_ONES.values(), ids=ODD_ONES)
def test_one_item_that_can_change_among_many_texts_is_seen_and_stays_shared(
    made: str, changes: str, look: str, form: str
) -> None:
    whole = "dict(enumerate(items))" if form == "dict" else f"{form}(items)"
    with Notebook() as nb:
        nb.run(f"{made}\nitems = [str(n) for n in range(20_000)]\nitems[7_919] = odd\nrows = {whole}\ndel items")
        first = nb.session.head
        before = repr(nb.look(look))
        assert set(names_changed(nb.run(changes))) == {"odd", "rows"}
        after = repr(nb.look(look))
        assert after != before
        nb.checkout(first)
        assert repr(nb.look(look)) == before
        nb.checkout("main")
        assert repr(nb.look(look)) == after


UNCHANGING = {
    "times": ("import datetime", "datetime.datetime(2020, 1, 1) + datetime.timedelta(0, {})"),
    "days and numbers": ("import datetime", "(datetime.date(2020, 1, 1) + datetime.timedelta({} % 99), 0.5)"),
    "decimals": ("import decimal", "decimal.Decimal({}) / 7"),
    "ids": ("import uuid", "uuid.UUID(int={})"),
    "numpy's numbers": ("import numpy as np", "np.float64({} / 3)"),
}


@pytest.mark.parametrize(("imports", "item"), UNCHANGING.values(), ids=UNCHANGING)
def test_a_cell_that_reads_a_long_list_of_what_cannot_change_pickles_none_of_it(
    imports: str, item: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dumped: list[int] = []
    dump_parts = segments._dump_parts

    def noted(value: Any, *args: Any, **options: Any) -> Any:
        dumped.append(len(value))
        return dump_parts(value, *args, **options)

    with Notebook() as nb:
        nb.run(f"{imports}\nrows = [{item.format('n')} for n in range(12_000)]")
        first = nb.session.head
        before = repr(nb.look("rows"))
        monkeypatch.setattr(segments, "_dump_parts", noted)
        assert not names_changed(nb.run("len(rows)"))
        assert not dumped
        assert names_changed(nb.run(f"rows[7] = {item.format('70_008')}")) == {"rows"}
        assert dumped == [12_000]
        nb.checkout(first)
        assert repr(nb.look("rows")) == before


@pytest.mark.parametrize(
    "made",
    [
        "words = collections.defaultdict(int, {f'w{i}': i for i in range({n})})",
        "words = collections.OrderedDict((f'w{i}', i) for i in range({n}))",
    ],
)
def test_what_a_long_dict_of_the_standard_library_holds_is_not_walked(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    referents = introspection.referents

    def noted(values: Any) -> Any:
        found = referents(values)
        seen.append(len(found))
        return found

    monkeypatch.setattr(aliases, "referents", noted)
    counts: list[int] = []
    for many in (12_000, 24_000, 48_000):
        seen.clear()
        with Notebook() as nb:
            nb.run("import collections\n" + made.replace("{n}", str(many)))
            assert names_changed(nb.run("words['w7'] += 1")) == {"words"}
        counts.append(sum(seen))
    assert counts[0] == counts[1] == counts[2]


def test_a_changed_list_is_digested_once_in_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    digest = atoms._digest

    def noted(value: Any, *args: Any) -> bytes:
        taken.append(len(value))
        return digest(value, *args)

    monkeypatch.setattr(atoms, "_digest", noted)
    with Notebook() as nb:
        nb.run("rows = [str(n) for n in range(12_000)]")
        taken.clear()
        for cell in ("rows[7] = 'other'", "rows.append('more')", "del rows[3]"):
            assert names_changed(nb.run(cell)) == {"rows"}
        assert len(taken) == 3
        assert not names_changed(nb.run("rows"))
        nb.run("rows[7] = 'again'")
        nb.run("rows[7] = ''.join(['oth', 'er'])")
        assert not names_changed(nb.run("rows"))
        assert names_changed(nb.run("rows[7] = 'again'")) == {"rows"}


@pytest.mark.parametrize("kind", ["tuple", "list"])
@pytest.mark.parametrize("holder", ["v", "[v]", "(v, [])", "{'rows': v}"])
@pytest.mark.parametrize("taken", ["v[5_000:]", "list(v[5_000:])", "v[5_000:7_500]"])
def test_rows_that_a_slice_takes_of_a_container_with_two_holders_stay_the_same_rows(
    kind: str, holder: str, taken: str
) -> None:
    with Notebook() as nb:
        nb.run(f"v = {kind}([n, [n]] for n in range(10_000))")
        nb.run(f"w = {holder}")
        made = nb.run(f"part = {taken}")
        nb.run("v = w = part = None")
        nb.checkout(made)
        assert nb.look("all(one is other for one, other in zip(part, v[5_000:]))")
        assert names_changed(nb.run("part[7][1].append(1)")) == {"part", "v", "w"}
        assert nb.look("v[5_007][1]") == [5_007, 1]


HELD_WITH_ROWS = {
    "a list with what cannot be saved": "[lock, v]",
    "a tuple with what cannot be saved": "(lock, v)",
    "a dict with what cannot be saved": "{1: v, 2: lock}",
    "a tuple in a list": "[(v, 1)]",
    "an object": "Box(v)",
    "an object in a list": "[Box(v)]",
    "an object with a tuple": "Box((v,))",
    "a function's default": "(lambda rows=v: rows)",
    "rows that one more variable holds parts of": "[v, shared]",
}


@pytest.mark.parametrize("kind", ["tuple", "list"])
@pytest.mark.parametrize("rows", [900, 2_500])
@pytest.mark.parametrize("holder", HELD_WITH_ROWS.values(), ids=HELD_WITH_ROWS)
def test_rows_of_a_long_container_are_one_with_those_that_another_value_holds_by_it(
    holder: str, rows: int, kind: str
) -> None:
    reach_row = """
def row(held):
    for _ in range(9):
        if len(held if isinstance(held, (list, tuple)) else ()) > 100:
            return held[3]
        parts = held.values() if isinstance(held, dict) else held if isinstance(held, (list, tuple)) else vars(held).values()
        parts = held.__defaults__ if callable(held) else parts
        held = next(one for one in parts if isinstance(one, (list, tuple, dict, Box)) and one is not shared)
"""
    with Notebook() as nb:
        nb.run("import threading\nlock = threading.Lock()\nclass Box:\n    def __init__(self, held): self.held = held")
        nb.run(f"shared = []\n{reach_row}\nv = {kind}({{'n': n, 'tags': [n], 'all': shared}} for n in range({rows}))")
        made = nb.run(f"held = {holder}")
        assert nb.look("row(held) is v[3]")
        nb.run("v[3]['tags'].append(-1)")
        nb.run("v = held = shared = None")
        nb.checkout(made)
        assert nb.look("row(held) is v[3] and v[3]['tags'] == [3]")
        assert nb.look("all(one['all'] is shared for one in v)")
        assert names_changed(nb.run("row(held)['tags'].append(-2)")) >= {"v", "held"}


@pytest.mark.parametrize("kind", ["tuple", "list"])
def test_what_cannot_be_saved_beside_a_long_container_is_all_that_is_left_out(kind: str) -> None:
    with Notebook() as nb:
        nb.run(f"import threading\nv = {kind}([n] for n in range(2_500))")
        made = nb.run("held = [threading.Lock(), v, 'text']")
        assert [unsaved.type for unsaved in made.unsaved] == ["_thread.lock"]
        nb.run("v = held = None")
        nb.checkout(made)
        assert nb.look("held[1][7] is v[7] and held[2] == 'text' and not held[0].locked()")
