"""What a session keeps in memory from cell to cell is in proportion to what the cells changed."""

from __future__ import annotations

import gc
import logging
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import cast

import pytest

from agent_kernel.repository import Entry, Tree
from agent_kernel.session import Repository, tracking
from agent_kernel.session.tracking import NO_CUTS, NO_OWN, NO_PIECES, NO_ROOTS, Group
from agent_kernel.values import CLASS_PREFIX, reducers
from agent_kernel.values.aliases import Reach
from tests.support.notebooks import Notebook

CLASSES = """
import enum
from dataclasses import dataclass
class Plain:
    def method(self):
        return Plain
class Shade(enum.Enum):
    DARK = 1
@dataclass(slots=True, frozen=True)
class Slotted:
    x: int = 1
class Meta(type):
    def __eq__(cls, other):
        return cls is other
    __hash__ = type.__hash__
class Made(metaclass=Meta):
    pass
class Reduces:
    def __reduce__(self):
        return Reduces, ()
class Listed(list):
    pass
held = [Plain(), Shade.DARK, Slotted(), Made(), Reduces(), Listed()]
"""


def test_a_class_of_the_notebook_dies_when_nothing_uses_it_any_more() -> None:
    with Notebook() as nb:
        nb.run(CLASSES)
        names = ["Plain", "Shade", "Slotted", "Meta", "Made", "Reduces", "Listed"]
        alive = {name: weakref.ref(cast("type", nb.look(name))) for name in names}
        nb.run("held.reverse()")
        nb.run(f"del held, {', '.join(names)}")
        nb.run("x = 1")
        gc.collect()
        assert [name for name, found in alive.items() if found() is not None] == []


def test_a_class_that_comes_after_a_dead_one_is_saved_its_own_way() -> None:
    # Its id may be the dead one's.
    kinds = ["(list)", "(dict)", "", "(tuple)", "(set)"] * 3
    with Notebook() as nb:
        for number, bases in enumerate(kinds):
            made = nb.run(f"class K{bases}: pass\nk = K(); k.n = {number}")
            nb.run("del K, k")
            gc.collect()
            nb.checkout(made)
            assert nb.look("(k.n, len(K.__mro__))") == (number, 3 if bases else 2)
            nb.checkout("main")


def kept_bytes(run: Callable[[int], object], cells: int) -> float:
    """Bytes that each of these cells adds to what this process holds.

    The lesser of two counts: a table that all tests fill grows by half from time to time, and not twice in a row.
    """
    numbers = count()
    for _ in range(5):  # what loads with the first cells is slow to trace
        run(next(numbers))
    tracemalloc.start()
    try:
        for _ in range(5):
            run(next(numbers))
        held = [_held_bytes()]
        for _ in range(2):
            for _ in range(cells):
                run(next(numbers))
            held.append(_held_bytes())
    finally:
        tracemalloc.stop()
    return min(after - before for before, after in pairwise(held)) / cells


def _held_bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_a_cell_that_changes_a_number_keeps_less_than_a_kilobyte(tmp_path: Path) -> None:
    with Repository.open(tmp_path / "store") as repo, Notebook(repo) as nb:
        assert kept_bytes(lambda number: nb.run(f"x = {number}"), 30) < 1_000


def test_what_is_remembered_of_a_small_variable_has_no_empty_containers_of_its_own() -> None:
    with Notebook() as nb:
        nb.run("a, b, c = [1], [2], 3")
        nb.run("a.append(0); b.append(0)")
        nb.run("a, b  # looked at once more")
        one, other, number = (nb.session.workspace.tracking.groups[name] for name in "abc")
        for group in (one, other, number):
            held = [group.own, group.pieces, group.cuts, group.roots, group.marks, group.classes, group.globals_used]
            assert not any(held)
        shared = {id(part) for part in parts_of(one)} & {id(part) for part in parts_of(other)}
        own = [part for part in parts_of(one) if id(part) not in shared]
        assert {type(part) for part in own} == {Reach, set, tuple}  # what it reaches, the ids of that, and its names
        assert len(own) == 3
        assert one.entries.keys() == {"a"}


def test_what_variables_have_in_common_stays_empty_whatever_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.root, "handlers", [logging.StreamHandler()])  # pytest's lead to all tests that ran
    with Notebook() as nb:
        nb.run(
            "rows = [[i] for i in range(3_000)]; others = [[i, 'x'] for i in range(3_000)]; index = [rows[5], others[7]]"
        )
        before = nb.run("rows[5].append(1)")
        nb.run("import logging; kept = logging.root.handlers; index.append(rows); fig = {'rows': rows}; del others")
        nb.checkout(before)
        nb.run("rows.append(index)")
    common = (NO_CUTS, NO_OWN, NO_PIECES, NO_ROOTS, tracking._NO_MEMORY, tracking._NONE_NAMED)
    assert not any(common)


def parts_of(group: Group) -> list[object]:
    """The containers that a group leads to, as far as they are its session's."""
    fields = [getattr(group, name) for name in group.__struct_fields__]
    return [
        part
        for part in (*fields, group.reach.ids, group.reach.memory, group.reach.named)
        if isinstance(part, (set, frozenset, dict, list, tuple, Reach)) and part != ()
    ]


def test_after_a_restart_a_cell_keeps_nothing_for_each_name_that_is_not_loaded(tmp_path: Path) -> None:
    small, large = (after_a_restart(tmp_path / str(count), count) for count in (200, 1_000))
    assert large < small + 4_000  # a set of the names takes 65 kB


def after_a_restart(place: Path, count: int) -> float:
    """What a cell keeps that binds a new name again, and one that was not loaded."""
    with Repository.open(place) as repo, Notebook(repo) as nb:
        nb.run(f"for i in range({count}): globals()[f'v{{i}}'] = i")
    with Repository.open(place) as repo, Notebook(repo) as nb:
        assert len(repo.at()) == count + 1  # reads the tree, whose nodes stay at hand
        kept = kept_bytes(lambda number: nb.run(f"x = {number}; v{number} = -1"), 10)
        # Undo still knows what was not loaded before each of them.
        assert len(nb.session.carried()) == count + 1 - 30
        nb.session.undo()
        assert len(nb.session.carried()) == count + 1 - 29
        return kept


def test_whether_objects_of_a_type_are_saved_whole_runs_nothing_of_its_metaclass() -> None:
    class Meta(type):
        def __eq__(cls, other: object) -> bool:
            raise AssertionError("asked")

        def __hash__(cls) -> int:
            raise AssertionError("asked")

    assert not reducers.goes_whole(Meta("Made", (), {"__module__": "__main__"}), reducers.ordinary)


def test_checking_out_names_reads_the_class_entries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(count: int) -> int:
        with Notebook() as nb:
            nb.run("class Kept: pass\n" + "\n".join(f"v{at} = Kept()" for at in range(count)))
            nb.run("Kept.more = 1")
            seen: list[str] = []
            entries = Tree.items

            def items(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Entry]]:
                seen.append(prefix)
                return entries(tree, prefix)

            with monkeypatch.context() as patch:
                patch.setattr(Tree, "items", items)
                nb.session.checkout("main~1", names=[f"v{at}" for at in range(count)])
            assert nb.look("hasattr(type(v0), 'more')") is False
            return seen.count(CLASS_PREFIX)

    assert reads(5) == reads(10) == reads(20)
