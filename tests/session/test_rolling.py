"""Changes that nothing in a cell points to: what someone else holds is looked at first, and nobody is passed over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from agent_kernel.session.serialization import Dumps
from tests.support.notebooks import Notebook


def found_in(nb: Notebook, name: str, cells: int) -> int:
    """The number of the cell, none of which touches the name, whose commit has its change."""
    for number in range(cells):
        report = nb.run(f"other = {number}")
        if name in {change.name for change in report.changed}:
            assert report.record is not None
            assert report.record.labels == (f"changed by something else: {name}",)
            return number
    raise AssertionError(f"the change of {name} was not found in {cells} cells")


@pytest.mark.parametrize("name", ["n3", "n499"])
def test_of_hundreds_of_containers_one_that_a_library_changes_is_found_by_the_next_cell(name: str) -> None:
    with Notebook() as nb:
        nb.run("first = [0]")  # the first look of all loads what looks need
        nb.run("globals().update({f'n{i}': [i] for i in range(500)})")
        held = nb.look(name)
        assert isinstance(held, list)
        held.append("by the library")
        assert found_in(nb, name, 1) == 0


def test_what_the_machine_did_beside_a_look_makes_no_value_dearer(monkeypatch: pytest.MonkeyPatch) -> None:
    began, calls = time.perf_counter(), count()
    with Notebook() as nb:
        nb.run("first = [0]")  # the first look of all loads what looks need
        with monkeypatch.context() as busy:
            busy.setattr(time, "perf_counter", lambda: began + next(calls) * 0.05)
            nb.run("x = [1]")
        held = nb.look("x")
        assert isinstance(held, list)
        held.append("by the library")
        assert found_in(nb, "x", 1) == 0


def test_what_a_look_waits_for_makes_a_value_dearer() -> None:
    with Notebook() as nb:
        nb.run(
            "import time\n"
            "class Remote:\n"
            "    def __reduce__(self):\n"
            "        looks.append(time.sleep(0.05))\n"
            "        return Remote, ()\n"
            "looks = []\n"
            "x = [Remote()]"
        )
        held = nb.look("x")
        assert isinstance(held, list)
        before = nb.look("len(looks)")
        for number in range(5):
            nb.run(f"other = {number}")
        assert nb.look("len(looks)") == before


def test_of_thousands_each_has_its_turn_within_a_few_cells() -> None:
    with Notebook() as nb:
        nb.run("globals().update({f'n{i}': [i] for i in range(1_800)})")
        for name in ("n1700", "n3", "n900"):
            held = nb.look(name)
            assert isinstance(held, list)
            held.append("by the library")
            found_in(nb, name, 5)
            del held


def test_what_is_held_is_looked_at_in_turn() -> None:
    with Notebook() as nb:
        nb.run("globals().update({f'n{i}': [i] for i in range(40)})")
        held = [nb.look(f"n{number}") for number in range(40)]
        last = held[39]
        assert isinstance(last, list)
        last.append("by the library")
        found_in(nb, "n39", 40)


def test_a_tuple_of_numbers_and_texts_is_not_looked_at_again_and_any_other_is() -> None:
    with Notebook() as nb:
        nb.run(
            "from collections import namedtuple\n"
            "class Row(tuple): pass\n"
            "class Text(str): pass\n"
            "flat, empty = (1, 'a', None, 2.5), ()\n"
            "nested, row, pair, text = (1, [2]), Row((1,)), namedtuple('Pair', 'a b')(1, 2), (Text('a'), 1)"
        )
        tracking = nb.session.workspace.tracking
        settled = {name for name, group in tracking.groups.items() if tracking.is_settled(group)}
        assert settled >= {"flat", "empty"}
        assert settled.isdisjoint({"nested", "row", "text"})
        before = nb.run("same = flat")
        assert nb.run("flat = (1, 'a', None, 2.5)").changed == ()
        assert [change.name for change in nb.run("flat += (3,)").changed] == ["flat"]
        nb.run("text[0].more = 1\nnested[1].append(3)")
        nb.checkout(before)
        assert nb.look("(flat, nested, hasattr(text[0], 'more'))") == ((1, "a", None, 2.5), (1, [2]), False)


def test_short_containers_that_stay_as_they_were_are_not_dumped_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those whose items are others, in number, kind, order or sharing, are found."""
    dumped: list[str] = []
    dump = Dumps.dump

    def counted(self: Dumps, members: Mapping[str, object], *args: Any, **options: Any) -> Any:
        dumped.extend(members)
        return dump(self, members, *args, **options)

    with Notebook() as nb:
        nb.run("a, b, c, d = [1, 'x', None], {'k': 1.5}, {1}, [2, 3]")
        nb.run("a, b, c, d")
        monkeypatch.setattr(Dumps, "dump", counted)
        for _ in range(3):
            assert nb.run("a, b, c, d").changed == ()
        assert dumped == []
        for change in (
            "a[0] = True",
            "a[0] = 1.0",
            "b['l'] = 0",
            "c |= {2}",
            "d.reverse()",
            "d.append(a)",
            "a.clear()",
        ):
            name = change[0]
            assert name in {one.name for one in nb.run(change).changed}, change
            assert name in dumped
            assert nb.run("a, b, c, d").changed == ()
