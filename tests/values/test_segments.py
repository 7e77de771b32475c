"""A long container is stored in segments: what did not change is not stored again, and nothing comes back twice."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.session.staging import cuts_of
from agent_kernel.values import atoms, introspection, segments
from agent_kernel.values.groups import Dumped, dump_group
from agent_kernel.values.segments import FROM_LENGTH, LENGTH, LONGEST, SHORTEST, Cuts, dump_segments
from tests.values.notebook import Kept, Namespace

LONG = 5 * LENGTH


class Saved(Namespace):
    """Remembers of each dump what the next one may use, as a session does."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.run(source)
        self.cuts: dict[str | int, Cuts] = {}
        self.known: frozenset[bytes] = frozenset()

    def save(self, *names: str) -> Dumped:
        """Dump the names, by default `rows`."""
        members = {name: self.names[name] for name in names or ("rows",)}
        dumped = dump_group(members, self.living, self.names, cuts=self.cuts, known=self.known)
        self.note_code(dumped)
        cut = dumped.segments
        self.cuts, self.known = {}, frozenset()
        if cut is not None:
            self.cuts, self.known = cuts_of(dumped, members), cut.marks
            cut.let_go()
        return dumped

    def again(self, *names: str) -> Any:
        """What comes back of the names, saved now: the value, or a tuple of them."""
        names = names or ("rows",)
        loaded = self.load([Kept(names, self.save(*names))])
        values = tuple(loaded[name] for name in names)
        return values[0] if len(values) == 1 else values


def streams(dumped: Dumped) -> set[object]:
    return set(dumped.blobs[: dumped.streams])


def test_a_long_list_is_cut_and_a_short_one_is_not() -> None:
    notebook = Saved(f"rows = [[n] for n in range({FROM_LENGTH})]\nshort = [[n] for n in range({FROM_LENGTH - 1})]\n")
    long, short = notebook.save("rows"), notebook.save("short")
    assert (long.layout.form, short.layout.form) == ("list", "")
    assert len(streams(short)) == 1


@pytest.mark.parametrize(
    "make",
    [
        "[[n, str(n)] for n in range({})]",
        "tuple((n, [n]) for n in range({}))",
        "{{n: [n] for n in range({})}}",
        "{{str(n) for n in range({})}}",
        "{{(n, 'x'): {{'row': n}} for n in range({})}}",
        "list(range({}))",
    ],
)
@pytest.mark.parametrize("length", [FROM_LENGTH, FROM_LENGTH + 1, LONG + SHORTEST // 2, LONG + SHORTEST * 2])
def test_every_form_comes_back_whole_and_in_order(make: str, length: int) -> None:
    notebook = Saved("rows = " + make.format(length))
    made, rows = notebook.again(), notebook["rows"]
    assert type(made) is type(rows)
    assert made == rows
    assert list(made) == list(rows) or type(rows) is set


def test_an_unchanged_list_gives_the_same_bytes() -> None:
    notebook = Saved(f"rows = [[n] for n in range({LONG})]")
    assert notebook.save().blobs == notebook.save().blobs


CHANGES = {
    "list": f"rows = [[n] for n in range({LONG})]",
    "tuple": f"rows = tuple([n] for n in range({LONG}))",
    "dict": f"rows = {{n: [n] for n in range({LONG})}}",
}


@pytest.mark.parametrize("form", CHANGES)
def test_a_changed_row_is_one_new_segment(form: str) -> None:
    notebook = Saved(CHANGES[form])
    before = streams(notebook.save())
    notebook.run("rows[2500].append('changed')")
    after = streams(notebook.save())
    assert len(after - before) == 1
    assert len(before - after) == 1
    assert notebook.again()[2500] == [2500, "changed"]


@pytest.mark.parametrize(
    ("change", "most_new"),
    [
        ("del rows[0]", 1),
        ("rows.insert(0, ['first'])", 1),
        ("del rows[2500]", 1),
        ("rows.insert(2500, ['between'])", 1),
        ("rows.append(['last'])", 2),  # the last one is as long as it may be
        ("del rows[:300]", 1),
        ("rows[2500:2500] = [['many', n] for n in range(1500)]", 3),
        ("rows.pop()", 1),
        ("del rows[3000:4000]", 1),
    ],
)
def test_rows_that_come_and_go_leave_the_other_segments_alone(change: str, most_new: int) -> None:
    notebook = Saved(f"rows = [[n] for n in range({LONG})]")
    before = streams(notebook.save())
    notebook.run(change)
    after = streams(notebook.save())
    assert len(after - before) <= most_new
    assert notebook.again() == notebook["rows"]


def test_deleting_the_first_row_again_and_again_keeps_the_cuts() -> None:
    notebook = Saved(f"rows = [[n] for n in range({LONG})]")
    for _ in range(5):
        before = streams(notebook.save())
        notebook.run("del rows[0]")
        assert len(streams(notebook.save()) - before) <= 1


def test_a_dict_keeps_its_order_when_a_key_moves_to_the_end() -> None:
    notebook = Saved(CHANGES["dict"])
    before = streams(notebook.save())
    notebook.run("rows[0] = rows.pop(0)")
    after = streams(notebook.save())
    assert len(after - before) <= 2
    assert list(notebook.again()) == [*range(1, LONG), 0]


def test_segments_stay_within_their_bounds() -> None:
    notebook = Saved(f"rows = [[n] for n in range({LONG})]")
    notebook.save()
    notebook.run(f"rows[:] = rows[:10] + rows[40:{LENGTH}] + [[-1]] * 0 + [[n] for n in range(9_000)] + rows[-5:]")
    cut = dump_segments([notebook["rows"]], notebook.living, notebook.names, [notebook.cuts["rows"]], notebook.known)
    assert cut is not None
    sizes = [len(segment.items) for segment in cut.segments]
    assert sum(sizes) == len(notebook["rows"])
    assert all(SHORTEST <= size <= LONGEST + SHORTEST for size in sizes)


@pytest.mark.parametrize(
    "source",
    [
        "rows[4500] = rows[10]",
        "rows[4500].append(rows[10])",
        "rows[10].append({}); rows[4500].append(rows[10][1])",
        "both = []; rows[10].append(both); rows[4500].append((1, [both])); del both",
        "class P: ...\nrows[10].append(P()); rows[4500].append(rows[10][-1])",
        "rows[10].append(rows)",
        "rows[10].append(bytearray(b'x')); rows[4500].append(rows[10][-1])",
    ],
)
def test_an_object_that_two_segments_hold_has_the_list_pickled_whole(source: str) -> None:
    notebook = Saved(f"rows = [[n] for n in range({LONG})]")
    notebook.save()
    notebook.run(source)
    assert notebook.save().layout.form == ""


def test_an_object_that_two_segments_hold_comes_back_as_one() -> None:
    notebook = Saved(f"rows = [[n] for n in range({LONG})]\nrows[4500].append(rows[10])")
    made = notebook.again()
    assert made[4500][1] is made[10]
    assert made[4500] == [4500, [10]]


def test_an_object_that_one_segment_holds_twice_needs_nothing() -> None:
    notebook = Saved(f"rows = [[n] for n in range({LONG})]\nrows[20].append(rows[10])")
    assert notebook.save().layout.form == "list"
    made = notebook.again()
    assert made[20][1] is made[10]


def test_what_cannot_change_may_stand_in_many_segments() -> None:
    notebook = Saved(f"text = 'long enough to be an object of its own' * 2\nrows = [(text, None, 2.5)] * {LONG}")
    assert notebook.save().layout.form == "list"


def test_a_set_of_texts_is_cut_where_it_was() -> None:
    notebook = Saved(f"rows = {{f'item {{n}}' for n in range({LONG})}}")
    before = streams(notebook.save())
    notebook.run("rows.discard('item 17')")
    assert len(streams(notebook.save()) - before) <= 1


def test_arrays_have_the_list_pickled_whole() -> None:
    pytest.importorskip("numpy")
    notebook = Saved(f"import numpy as np\nrows = [[n] for n in range({LONG})]\nrows[3].append(np.arange(3))")
    assert notebook.save().layout.form == ""


@pytest.mark.parametrize("item", ["(n for n in ())", "threading.Lock()"])
def test_a_row_that_cannot_be_saved_costs_only_itself(item: str) -> None:
    notebook = Saved(f"import threading\nrows = [[n] for n in range({LONG})]\nrows[3].append({item})")
    dumped = notebook.save()
    assert dumped.layout.form == ""  # what needs care has the list pickled whole
    assert len(dumped.dump.save_failures) == 1
    assert notebook.again()[4:] == notebook["rows"][4:]


class TestBesideOthers:
    """Another variable holds a part of the long one: the part is stored once, and the segments name it."""

    def test_the_last_row_after_a_loop_is_the_row_of_the_list(self) -> None:
        notebook = Saved(f"rows = [[n] for n in range({LONG})]\nfor row in rows: pass\n")
        dumped = notebook.save("row", "rows")
        assert dumped.layout.form == "list"
        row, rows = notebook.again("row", "rows")
        assert rows[-1] is row
        assert rows == notebook["rows"]

    def test_an_object_of_the_notebook_may_be_the_row(self) -> None:
        notebook = Saved(f"class P:\n    pass\nrows = [P() for _ in range({LONG})]\nlast = {{'it': rows[-1]}}\n")
        kept = notebook.keep("last", "rows")
        made = notebook.load(kept)
        assert made["last"]["it"] is made["rows"][-1]
        assert len({id(row) for row in made["rows"]}) == LONG

    @pytest.mark.parametrize("kind", ["[n]", "{'n': n}", "Row(n=n)"])
    def test_a_part_is_found_when_the_segments_are_known(self, kind: str) -> None:
        notebook = Saved(
            f"from collections import Counter as Row\nrows = [{kind} for n in range({LONG})]\nlast = [rows[-1], rows[7]]\n"
        )
        notebook.save("last", "rows")
        notebook.run("last.append('changed')")
        last, rows = notebook.again("last", "rows")
        assert last[0] is rows[-1]
        assert last[1] is rows[7]

    def test_a_part_of_a_row_may_be_held(self) -> None:
        notebook = Saved(f"rows = [[n, {{}}] for n in range({LONG})]\npart = rows[1234][1]\n")
        part, rows = notebook.again("part", "rows")
        assert rows[1234][1] is part

    def test_a_variable_that_holds_the_list_itself_has_it_pickled_whole(self) -> None:
        notebook = Saved(f"rows = [[n] for n in range({LONG})]\nholder = [rows]\n")
        assert notebook.save("holder", "rows").layout.form == ""
        holder, rows = notebook.again("holder", "rows")
        assert holder[0] is rows

    def test_a_change_of_the_other_variable_leaves_the_segments_alone(self) -> None:
        notebook = Saved(f"rows = [[n] for n in range({LONG})]\nlast = [rows[-1]]\n")
        before = streams(notebook.save("last", "rows"))
        notebook.run("last.append('changed')")
        assert len(streams(notebook.save("last", "rows")) - before) == 1


ATOMS = {
    "texts": "rows = [f'w{{n}}' for n in range({})]",
    "numbers": "rows = [n / 3 for n in range({})]",
    "pairs": "rows = [(n, (str(n), n / 2)) for n in range({})]",
    "a tuple": "rows = tuple(f'w{{n}}' for n in range({}))",
    "a dict": "rows = {{(n, str(n)): n / 2 for n in range({})}}",
    "a set": "rows = {{f'w{{n}}' for n in range({})}}",
}


@pytest.mark.parametrize("source", ATOMS.values(), ids=ATOMS)
def test_each_item_of_a_container_of_atoms_is_asked_for_its_type_once(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    ids_of_types = introspection.ids_of_types

    def noted(values: Any) -> Any:
        asked.append(len(values))
        return ids_of_types(values)

    monkeypatch.setattr(atoms, "ids_of_types", noted)
    counts: list[int] = []
    for many in (20_000, 40_000, 80_000):
        asked.clear()
        Saved(source.format(many)).save()
        counts.append(sum(asked))
    parts = {"pairs": 5, "a dict": 4}.get(next(name for name, made in ATOMS.items() if made == source), 1)
    tried = 5_000  # that many are looked at before, however long the container is
    assert all(count <= parts * many + tried for count, many in zip(counts, (20_000, 40_000, 80_000), strict=True))


@pytest.mark.parametrize("source", ATOMS.values(), ids=ATOMS)
def test_a_container_of_atoms_is_pickled_without_reducers(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "pickle_items", None)
    notebook = Saved(source.format(20_000))
    before = notebook.names["rows"]
    found = notebook.again()
    assert found == before
    assert type(found) is set or list(found) == list(before)
    assert set(map(type, found)) == set(map(type, before))
