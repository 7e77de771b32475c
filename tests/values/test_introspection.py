"""What the addresses of objects and the numbers of classes prove: that nothing was exchanged."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agent_kernel.values.introspection import (
    ADDRESS_BYTES,
    Versions,
    addresses,
    ids_of,
    is_among,
    of_types,
    set_table_and_items,
    visit_set_table,
)


class Base:
    kept = 1


class Derived(Base):
    pass


def test_classes_are_the_same_until_one_of_them_or_of_their_bases_is_changed() -> None:
    found = Versions([Derived])
    assert found.are_same()
    assert Derived.kept == 1
    Derived().other = 2  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert found.are_same()
    Base.kept = 2
    assert not found.are_same()
    assert Versions([Derived]).are_same()


def test_a_class_that_was_changed_and_changed_back_is_not_the_same() -> None:
    found = Versions([Base, Derived])
    Derived.more = 3  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    del Derived.more  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert not found.are_same()


def test_of_many_classes_those_are_told_that_have_changed_and_each_change_once() -> None:
    class Other:
        pass

    found = Versions([Other, Base, Derived])
    assert found.take_changed() == []
    Base.kept = 3
    assert found.take_changed() == [Base, Derived]  # an attribute of the base is one of the derived class
    assert found.take_changed() == []
    Derived.more = 4  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    Other.more = 4  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert found.take_changed() == [Other, Derived]
    assert found.are_same()


def test_nothing_is_said_to_be_the_same_where_there_is_no_class() -> None:
    assert not Versions().are_same()


@pytest.mark.parametrize("number", [0, 1, 31, 32, 5_000])
def test_the_ids_of_many_are_what_id_says_of_each(number: int) -> None:
    given: list[object] = [[n] for n in range(number)]
    assert list(ids_of(given)) == list(ids_of(iter(given))) == list(map(id, given))


@pytest.mark.parametrize("number", [0, 1, 499, 500, 5_000])
def test_those_of_a_type_among_many_are_found_in_order_by_the_type_alone(number: int) -> None:
    class Listed(list[int]):
        pass

    class Odd(type):
        def __eq__(cls, other: object) -> bool:
            raise AssertionError("code of a metaclass ran")

        def __hash__(cls) -> int:
            raise AssertionError("code of a metaclass ran")

    class Strange(metaclass=Odd):
        pass

    pytest.importorskip("numpy")
    made: list[object] = [[], {}, (), Listed(), Strange(), 1, "a"]
    given = [made[place % len(made)] for place in range(number)]
    kinds = frozenset(map(id, (list, dict)))
    assert list(map(id, of_types(given, kinds))) == [id(one) for one in given if id(type(one)) in kinds]
    assert of_types(given, frozenset({id(bytearray)})) == []


def test_an_address_is_found_where_one_stands_and_not_where_two_meet() -> None:
    some = [[n] for n in range(100)]
    found = addresses(some)
    assert all(is_among(item, found) for item in map(id, some))
    assert not is_among(id(found), found)
    across = [
        int.from_bytes(found[at : at + ADDRESS_BYTES], sys.byteorder)
        for at in range(len(found) - ADDRESS_BYTES)
        if at % ADDRESS_BYTES
    ]
    assert not {item for item in across if is_among(item, found)}
    both = (across[0]).to_bytes(ADDRESS_BYTES, sys.byteorder) + found
    assert is_among(across[0], found + both)  # and behind places where it only seems to stand
    assert not is_among(id(some[0]), b"")


@pytest.mark.parametrize("number", [0, 1, 5, 4_096, 100_000])
def test_the_pieces_of_a_sets_table_are_all_of_it(number: int) -> None:
    own: set[object] = {f"item {place}" for place in range(number)}
    own.discard("item 3")
    pieces: list[bytes] = []
    assert visit_set_table(own, pieces.append)
    assert b"".join(pieces) == set_table_and_items(own)[0]


@pytest.mark.parametrize("at", [0, 1, 20])
def test_of_a_set_that_shrinks_while_it_is_visited_no_piece_is_read_where_it_was(at: int) -> None:
    own: set[object] = set(range(100_000))
    longer = len(set_table_and_items(own)[0])
    sizes: list[int] = []

    def visit(piece: bytes) -> None:
        if len(sizes) == at:
            own.clear()
            own.add("one")
        sizes.append(len(piece))

    assert visit_set_table(own, visit)
    assert sum(sizes) < longer
    assert not any(sizes[at + 1 :])


_TABLES_THAT_MOVE = """
import sys, threading
from agent_kernel.values.introspection import Rows, addresses, set_table_and_items, visit_set_table

sys.addaudithook(lambda event, args: None)  # in Python, where threads take turns
some, own, is_over = {f"v{n}": n for n in range(50)}, set(range(10)), threading.Event()
kept = addresses([part for item in some.items() for part in item])

def change():
    while not is_over.is_set():
        some.update(more := {f"w{n}": n for n in range(5_000)})
        for name in more:
            del some[name]
        own.update(range(1_000, 6_000))
        own.difference_update(range(1_000, 6_000))

thread = threading.Thread(target=change)
sys.setswitchinterval(1e-5)
rows = Rows(some)
thread.start()
try:
    for _ in range(2_000):
        assert rows.read().startswith(kept)
        assert set(set_table_and_items(own)[1]) >= set(range(10))
        assert visit_set_table(own, len)
        assert visit_set_table(own, lambda piece: [*range(100)])  # in Python, where threads take turns
finally:
    is_over.set()
    thread.join()
"""


def test_tables_are_read_whole_though_another_thread_moves_them_and_a_hook_hears_of_all_that_is_done() -> None:
    subprocess.run([sys.executable, "-c", _TABLES_THAT_MOVE], check=True)
